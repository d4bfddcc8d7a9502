// A Python that can run midfill, and whether a compiler is there for its engine. Refuses to install either.

import { run } from './commandLine';
import { isProgram, onPath } from './program';
import { NEEDS_PYTHON } from './wording';

const NAMES = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python'];
const CHECK =
  'import sys; sys.exit(3) if sys.version_info < (3, 11) else None\n' +
  'try: import venv, ensurepip\nexcept ImportError: sys.exit(4)\n';

export type Python = { readonly path: string } | { readonly problem: string };

/** named: in the settings; empty: look for one. */
export async function findPython(named: string): Promise<Python> {
  const wanted = named.trim();
  const elsewhere = 'install it, or name one in the setting midfill.server.python.';
  let older = `${NEEDS_PYTHON}, and none was found; ${elsewhere}`;
  let lacking: string | undefined; // nearer than an older one
  for (const candidate of wanted ? [wanted] : NAMES.flatMap((name) => onPath(name) ?? [])) {
    const { code } = await run(candidate, ['-I', '-c', CHECK]);
    if (code === 0) {
      return { path: candidate };
    }
    if (code === 4) {
      lacking ??=
        `${candidate} lacks the modules venv and ensurepip; Debian and Ubuntu: apt install python3-venv. ` +
        'Or name another Python in the setting midfill.server.python.';
    } else if (wanted) {
      older = `${NEEDS_PYTHON}; ${candidate}, which midfill.server.python names, ${code === 127 ? 'is not there' : 'is older or fails'}.`;
    } else if (code === 3) {
      older = `${NEEDS_PYTHON}, and ${candidate} is older; ${elsewhere}`;
    }
  }
  return { problem: lacking ?? older };
}

/** Whether the engine can be built here; on Windows CMake finds compilers that are not on the PATH, so there it is tried. */
export function hasCompiler(environment: NodeJS.ProcessEnv = process.env): boolean {
  if (process.platform === 'win32') {
    return true;
  }
  const is = (variable: string, usual: string): boolean => {
    const word = (environment[variable] ?? usual).trim().split(/\s+/)[0] ?? usual;
    return word.includes('/') ? isProgram(word) : onPath(word) !== undefined;
  };
  return is('CC', 'cc') && is('CXX', 'c++');
}
