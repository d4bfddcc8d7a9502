// What one can do about a sentence of the server, besides reading it. Owns the forms of those sentences that it recognizes;
// the tests in the real editor hold them against the server's own words.

export type Advice = { readonly kind: 'pull'; readonly model: string } | { readonly kind: 'restart' } | { readonly kind: 'read' };

const PULL = /`midfill models pull ([^`\s]+)`/;
const LATER = /takes effect when the server is restarted/;

export function adviceFor(sentence: string): Advice {
  const pull = PULL.exec(sentence);
  if (pull?.[1] !== undefined) {
    return { kind: 'pull', model: pull[1] };
  }
  return LATER.test(sentence) ? { kind: 'restart' } : { kind: 'read' };
}
