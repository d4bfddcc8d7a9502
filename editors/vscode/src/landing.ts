// Where the cursor has to stand when a suggestion was taken. VS Code sets it by a count in which a pair of UTF-16 is one column
// (seen in 1.99), so behind a text with pairs it stands too far left. Refuses to move it anywhere else.

export interface Place {
  readonly line: number;
  readonly character: number;
}

const PAIR = /[\ud800-\udbff][\udc00-\udfff]/g;

/** The end of `text` that begins at `start`. */
export function endOf(start: Place, text: string): Place {
  const lines = text.split(/\r\n|\n/);
  const last = lines.at(-1) ?? '';
  const line = start.line + lines.length - 1;
  return { line, character: lines.length === 1 ? start.character + last.length : last.length };
}

/** Whether a cursor there is off by no more than the pairs of `text`. */
export function isShort(cursor: Place, start: Place, text: string): boolean {
  const end = endOf(start, text);
  const short = end.character - cursor.character;
  return cursor.line === end.line && short > 0 && short <= (text.match(PAIR)?.length ?? 0);
}
