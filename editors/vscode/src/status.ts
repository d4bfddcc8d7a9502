// What the server does, in words: the parameters of `midfill/status`, a few characters for the status bar, and a sentence.
// Refuses to know who shows them.

export type State =
  | 'starting'
  | 'downloading'
  | 'loading'
  | 'ready'
  | 'thinking'
  | 'paused'
  | 'error'
  // the client's own: there is no server that could tell
  | 'absent'
  | 'installing'
  | 'ended';

/** percent: of a download or load. reason: why nothing was shown. indexing: per cent of the workspace, while that goes on. */
export interface Status {
  readonly state: State;
  readonly message?: string;
  readonly percent?: number;
  readonly reason?: string;
  readonly indexing?: number;
}

const ICONS: Record<State, string> = {
  starting: 'loading~spin',
  downloading: 'cloud-download',
  loading: 'loading~spin',
  ready: 'sparkle',
  thinking: 'loading~spin',
  paused: 'debug-pause',
  error: 'warning',
  absent: 'circle-slash',
  installing: 'loading~spin',
  ended: 'error',
};

/** For the status bar, with an icon. off: why the file in front gets nothing, if it is the user's own wish. */
export function short(status: Status, off = ''): string {
  if (off && (status.state === 'ready' || status.state === 'thinking')) {
    return '$(circle-slash) midfill';
  }
  const percent = status.percent === undefined ? '' : ` ${status.percent}%`;
  return `$(${ICONS[status.state]}) midfill${percent}`;
}

/** One line that tells all of it. */
export function sentence(status: Status, off = ''): string {
  let text = `midfill: ${status.state === 'absent' ? 'not set up' : status.state}`;
  if (status.percent !== undefined) {
    text += ` ${status.percent}%`;
  }
  if (off) {
    text += `; ${off}`;
  }
  if (status.message && status.message !== status.state) {
    text += `; ${status.message}`;
  }
  if (status.reason) {
    text += `; nothing was shown: ${status.reason}`;
  }
  if (status.indexing !== undefined) {
    text += `; the workspace is indexed to ${status.indexing}%`;
  }
  return text;
}

/** Whether the state asks for the user. */
export function isGrave(status: Status): boolean {
  return status.state === 'error' || status.state === 'ended';
}
