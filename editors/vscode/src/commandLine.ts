// Running a program to its end, its output line by line. Refuses to interpret what it says.

import { spawn } from 'node:child_process';

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly lines: readonly string[]; // of both outputs, as they came
}

/** stop: ends it and what it has started (pip's compilers), first with an interrupt, so that it can leave things in order.
 * cwd: where it runs. */
export interface RunOptions {
  readonly environment?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly stop?: AbortSignal;
  readonly onLine?: (line: string) => void;
}

const GRACE_MS = 5_000;
const IS_WINDOWS = process.platform === 'win32';

/** Never rejects: a program that is not there has ended with the code 127. */
export function run(program: string, words: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return new Promise((resolve) => {
    const lines: string[] = [];
    let stdout = '';
    const child = spawn(program, [...words], {
      env: options.environment ?? process.env,
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      windowsHide: true,
      detached: !IS_WINDOWS, // a group of its own, so that all of it can be ended
    });
    const take = (line: string): void => {
      lines.push(line);
      options.onLine?.(line);
    };
    const splitters = [new Lines(take), new Lines(take)];
    child.stdout.setEncoding('utf8').on('data', (data: string) => {
      stdout += data;
      splitters[0]?.feed(data);
    });
    child.stderr.setEncoding('utf8').on('data', (data: string) => splitters[1]?.feed(data));
    let patience: NodeJS.Timeout | undefined;
    const interrupt = (): void => {
      endAll(child.pid, 'SIGINT');
      patience = setTimeout(() => endAll(child.pid, 'SIGKILL'), GRACE_MS);
    };
    options.stop?.addEventListener('abort', interrupt, { once: true });
    const finish = (code: number | null, signal: NodeJS.Signals | null): void => {
      options.stop?.removeEventListener('abort', interrupt);
      clearTimeout(patience);
      splitters.forEach((one) => one.end());
      resolve({ code, signal, stdout, lines });
    };
    child.on('error', (error: NodeJS.ErrnoException) => {
      take(error.code === 'ENOENT' ? `${program} is not there` : error.message);
      finish(127, null);
    });
    child.on('close', finish);
    if (options.stop?.aborted) {
      interrupt();
    }
  });
}

/** pid: of the process that leads the group. */
function endAll(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) {
    return; // it never began
  }
  if (IS_WINDOWS) {
    spawn('taskkill', ['/pid', String(pid), '/t', '/f'], { stdio: 'ignore', windowsHide: true }).on('error', () => undefined);
    return;
  }
  try {
    process.kill(-pid, signal);
  } catch {
    // all of it has ended
  }
}

/** Cuts a stream into lines; a carriage return begins one anew, as in a progress bar. */
export class Lines {
  private rest = '';

  constructor(private readonly onLine: (line: string) => void) {}

  feed(data: string): void {
    const parts = (this.rest + data).split(/\r\n|\n|\r/);
    this.rest = parts.pop() ?? '';
    parts.filter((line) => line.trim() !== '').forEach(this.onLine);
  }

  end(): void {
    this.feed('\n');
  }
}
