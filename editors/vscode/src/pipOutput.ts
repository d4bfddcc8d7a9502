// What pip says while it works, as a few words for a progress notification.

import { BUILD_TIME } from './wording';

const ENGINE = 'llama-cpp-python';

/** Words for the line; undefined: nothing that matters. */
export function stepOf(line: string): string | undefined {
  const building = /^\s*Building wheel for (\S+)/.exec(line);
  if (building) {
    return building[1] === ENGINE ? BUILD_TIME : `building ${building[1]}`;
  }
  const collecting = /^\s*(?:Collecting|Downloading|Processing) (\S+)/.exec(line);
  if (collecting?.[1] !== undefined) {
    return `getting ${nameOf(collecting[1])}`;
  }
  if (/^\s*Installing collected packages/.test(line)) {
    return 'installing';
  }
  return undefined;
}

function nameOf(requirement: string): string {
  const file = requirement.split('/').at(-1) ?? requirement;
  return file.split(/[<>=!~;[(]/)[0]?.replace(/-\d.*$/, '') ?? file;
}

export const NO_BUILT_ENGINE = `no built wheel of ${ENGINE} was found`;

const NOTHING_FOUND = /No matching distribution found for (\S+?)(?:[<>=!~;[(]|$)/;
const LOST = /connection broken by|Could not fetch URL|failed to connect/i;

/** Why it failed, for people. */
export function reasonOf(lines: readonly string[]): string {
  const errors = lines.filter((line) => /^\s*(ERROR|error):/.test(line));
  const last = errors.at(-1) ?? lines.at(-1) ?? 'pip gave no reason';
  const lacking = NOTHING_FOUND.exec(last)?.[1];
  if (LOST.test(last) || (lacking !== undefined && lines.some((line) => LOST.test(line)))) {
    const named = lines.map((line) => /^Looking in indexes: (.*)/.exec(line)?.[1]).find((index) => index !== undefined);
    return `the package index ${named ? `(${named}) ` : ''}was not reached; check the network, or pip's index, proxy and certificate`;
  }
  return lacking === ENGINE ? NO_BUILT_ENGINE : last.replace(/^\s*(ERROR|error):\s*/, '').trim();
}
