// Getting a model with the product's own command, and how far it is. Refuses to choose one.

import { run } from './commandLine';

/** percent: 0 to 100. detail: "49 of 491 MB, part 2 of 6". */
export interface Step {
  readonly phase: string;
  readonly percent: number;
  readonly detail: string;
}

const LINE = /^(checking|downloading): (\d+) % \((.*)\)$/;
const AMOUNT = /^([\d,]+) of ([\d,]+) MB/;

/** What a line of `midfill models pull` tells of its progress; undefined: something else. */
export function stepOf(line: string): Step | undefined {
  const parts = LINE.exec(line.trim());
  if (!parts) {
    return undefined;
  }
  const [, phase = '', rounded = '', detail = ''] = parts;
  const amount = AMOUNT.exec(detail);
  const [done, all] = [amount?.[1], amount?.[2]].map((text) => Number((text ?? '').replaceAll(',', '')));
  const percent = amount && done !== undefined && all ? Math.floor((100 * done) / all) : Number(rounded);
  return { phase, percent: Math.min(percent, 100), detail };
}

/** The sentence to show; undefined: it is on disk. */
export async function pull(
  program: string,
  model: string,
  onStep: (step: Step) => void,
  onLine: (line: string) => void,
  stop: AbortSignal,
): Promise<string | undefined> {
  const done = await run(program, ['models', 'pull', model], {
    stop,
    onLine: (line) => {
      onLine(line);
      const step = stepOf(line);
      if (step) {
        onStep(step);
      }
    },
  });
  if (done.code === 0) {
    return undefined;
  }
  if (stop.aborted) {
    return `the download of ${model} was stopped; what has come stays, and the next one goes on from there`;
  }
  const last = [...done.lines].reverse().find((line) => stepOf(line) === undefined) ?? 'it gave no reason';
  return last.replace(/^midfill: /, '');
}

/** One of the models that `midfill models list --json` tells. */
export interface Listed {
  readonly id: string;
  readonly title: string;
  readonly bytes: number;
  readonly licence: string;
  readonly terms: string;
  readonly on_disk: boolean;
  readonly is_chosen: boolean;
  readonly why_not: string;
}

export interface Listing {
  readonly setting: string;
  readonly automatic_choice: { readonly id: string; readonly why: string };
  readonly models: readonly Listed[];
  readonly added: readonly { readonly id: string; readonly path: string; readonly in_place: boolean }[];
}

/** What there is; a sentence, if the command fails. */
export async function list(program: string): Promise<Listing | string> {
  const done = await run(program, ['models', 'list', '--json']);
  if (done.code !== 0) {
    return (done.lines.at(-1) ?? `midfill models list ended with ${done.code}`).replace(/^midfill: /, '');
  }
  try {
    return JSON.parse(done.stdout) as Listing;
  } catch {
    return '`midfill models list --json` did not answer with JSON; is this another program of that name?';
  }
}

export function size(bytes: number): string {
  return bytes >= 0.95e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.round(bytes / 1e6)} MB`;
}
