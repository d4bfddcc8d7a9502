// Whether the server still answers. Owns the clock of every request that is on its way, cancelled ones too: they have to be
// answered as well. Refuses to act on it.

export class Patience {
  private waiting = new Set<NodeJS.Timeout>();

  /** limitMs: how long an answer may take; 0: for ever. */
  constructor(
    private readonly limitMs: () => number,
    private readonly onLost: () => void,
  ) {}

  watch<T>(answer: Promise<T>): Promise<T> {
    const limit = this.limitMs();
    if (limit <= 0) {
      return answer;
    }
    const timer = setTimeout(() => {
      this.waiting.delete(timer);
      this.onLost();
    }, limit);
    this.waiting.add(timer);
    const done = (): void => {
      clearTimeout(timer);
      this.waiting.delete(timer);
    };
    answer.then(done, done);
    return answer;
  }

  /** The server has gone: nobody waits for it any more. */
  clear(): void {
    for (const timer of this.waiting) {
      clearTimeout(timer);
    }
    this.waiting.clear();
  }
}
