// VS Code counts a pair of UTF-16 as one column when it compares a suggestion with what it replaces, and then shows nothing
// where a pair stands in between (seen in 1.99). So a suggestion begins behind the last pair that it would only repeat.

/** How many UTF-16 units of `covered` (what stands between the suggestion's start and the cursor) it need not repeat. */
export function unitsToLeaveOut(text: string, covered: string): number {
  if (!text.startsWith(covered)) {
    return 0;
  }
  for (let i = covered.length - 1; i > 0; i--) {
    if (/[\udc00-\udfff]/.test(covered.charAt(i)) && /[\ud800-\udbff]/.test(covered.charAt(i - 1))) {
      return i + 1;
    }
  }
  return 0;
}
