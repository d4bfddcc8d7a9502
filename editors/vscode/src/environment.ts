// The virtual environment that this extension makes for the server: where it lies, whether it is complete and of this version,
// and how it is made. Nothing outside of its folder is touched. Refuses to ask the user.
//
// An older one is updated in place: pip then keeps the engine, which takes minutes to build.

import * as fs from 'node:fs';
import * as path from 'node:path';

import { Ended, run } from './commandLine';
import { NO_BUILT_ENGINE, reasonOf, stepOf } from './pipOutput';
import { NEEDS_COMPILER } from './wording';

export interface Plan {
  readonly python: string;
  readonly wheel: string; // of midfill itself
  readonly engineWheels: string; // directory or index with built wheels of the engine; empty: none is named
  readonly hasCompiler: boolean;
}

export class Environment {
  private readonly mark: string;

  constructor(
    private readonly folder: string,
    private readonly version: string,
  ) {
    this.mark = path.join(folder, 'midfill-version');
  }

  /** The server's program, if it is there, whatever version. */
  program(): string | undefined {
    const file = this.inside('midfill');
    return this.made() !== undefined && fs.existsSync(file) ? file : undefined;
  }

  /** Whether it is there, but of another version than this extension's. */
  isStale(): boolean {
    const made = this.made();
    return made !== undefined && made !== this.version;
  }

  /** The sentence to show; undefined: it is complete. onStep: a few words on what is done now. */
  async make(
    plan: Plan,
    onStep: (words: string) => void,
    onLine: (line: string) => void,
    stop: AbortSignal,
  ): Promise<string | undefined> {
    fs.mkdirSync(path.dirname(this.folder), { recursive: true });
    onStep('making a Python environment');
    const isNew = this.made() === undefined;
    if (isNew) {
      fs.rmSync(this.folder, { recursive: true, force: true }); // of an attempt that was ended
      const venv = await run(plan.python, ['-I', '-m', 'venv', this.folder], { stop, onLine });
      if (venv.code !== 0) {
        return this.failed(venv, stop);
      }
    }
    const pip = ['-I', '-m', 'pip', '--disable-pip-version-check', '--no-input'];
    const python = this.inside('python');
    onStep('updating pip');
    const update = await run(python, [...pip, 'install', '--upgrade', 'pip>=24.2'], { stop, onLine });
    if (update.code !== 0) {
      return this.failed(update, stop);
    }
    const report = (line: string): void => {
      onLine(line);
      const words = stepOf(line);
      if (words !== undefined) {
        onStep(words);
      }
    };
    const install = await run(python, [...pip, 'install', ...fromWheels(plan), plan.wheel], { stop, onLine: report });
    if (install.code !== 0) {
      const why = this.failed(install, stop);
      return why === NO_BUILT_ENGINE && !plan.hasCompiler ? `${NEEDS_COMPILER} (${why})` : why;
    }
    onStep('trying it');
    const trial = await run(this.inside('midfill'), ['--version'], { stop, onLine });
    if (trial.code !== 0) {
      return this.failed(trial, stop);
    }
    fs.writeFileSync(this.mark, this.version);
    return undefined;
  }

  private failed(ended: Ended, stop: AbortSignal): string {
    return stop.aborted ? 'the installation was stopped; the next one begins anew' : reasonOf(ended.lines);
  }

  private made(): string | undefined {
    try {
      return fs.readFileSync(this.mark, 'utf8').trim();
    } catch {
      return undefined;
    }
  }

  private inside(name: string): string {
    return process.platform === 'win32'
      ? path.join(this.folder, 'Scripts', `${name}.exe`)
      : path.join(this.folder, 'bin', name);
  }
}

function fromWheels(plan: Plan): string[] {
  const wheels = plan.engineWheels.trim();
  const from = wheels
    ? ['--prefer-binary', wheels.includes('://') ? '--extra-index-url' : '--find-links', wheels]
    : [];
  // without a compiler pip is to say at once that it found no wheel, instead of what CMake says after minutes
  return plan.hasCompiler ? from : [...from, '--only-binary', 'llama-cpp-python'];
}

/** The wheel of midfill that came with this extension; undefined: it was packaged without. */
export function bundledWheel(extensionFolder: string): string | undefined {
  const folder = path.join(extensionFolder, 'wheel');
  const names = fs.existsSync(folder) ? fs.readdirSync(folder).filter((name) => name.endsWith('.whl')) : [];
  return names[0] === undefined ? undefined : path.join(folder, names[0]);
}
