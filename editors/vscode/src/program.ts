// Where the server is: named in the settings, on the PATH, or in the environment that this extension has made.
// Refuses to start it.

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

export type Found =
  | { readonly kind: 'program'; readonly path: string; readonly from: 'setting' | 'PATH' | 'own' }
  | { readonly kind: 'missing'; readonly named: string } // named in the settings, and not there
  | { readonly kind: 'none' };

/** What of the system the search looks at. */
export interface World {
  readonly isProgram: (file: string) => boolean;
  readonly searchPath: string;
  readonly home: string;
  readonly isWindows: boolean;
}

export function thisMachine(): World {
  return {
    isProgram,
    searchPath: process.env['PATH'] ?? '',
    home: os.homedir(),
    isWindows: process.platform === 'win32',
  };
}

export function isProgram(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

/** named: the setting, a path or a name; empty: none. own: the program of our own environment, if that is complete. */
export function find(named: string, own: string | undefined, world: World = thisMachine()): Found {
  const wanted = named.trim();
  if (wanted !== '') {
    const file = /[\\/]/.test(wanted) || wanted.startsWith('~') ? expand(wanted, world) : onPath(wanted, world);
    return file !== undefined && world.isProgram(file)
      ? { kind: 'program', path: file, from: 'setting' }
      : { kind: 'missing', named: wanted };
  }
  const file = onPath('midfill', world);
  if (file !== undefined) {
    return { kind: 'program', path: file, from: 'PATH' };
  }
  return own !== undefined ? { kind: 'program', path: own, from: 'own' } : { kind: 'none' };
}

function expand(file: string, world: World): string {
  return file === '~' || /^~[\\/]/.test(file) ? path.join(world.home, file.slice(1)) : file;
}

/** The program of that name; undefined: there is none. */
export function onPath(name: string, world: World = thisMachine()): string | undefined {
  const endings = world.isWindows ? ['.exe', '.cmd', ''] : [''];
  for (const folder of world.searchPath.split(world.isWindows ? ';' : ':')) {
    if (folder === '' || !(path.isAbsolute(folder) || world.isWindows)) {
      continue; // what lies in the working directory is somebody else's
    }
    for (const ending of endings) {
      const file = path.join(folder, name + ending);
      if (world.isProgram(file)) {
        return file;
      }
    }
  }
  return undefined;
}
