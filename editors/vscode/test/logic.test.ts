// What decides without an editor: sentences, searches, clocks, what other programs say.

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { test } from 'node:test';

import { adviceFor } from '../src/advice';
import { Lines, run } from '../src/commandLine';
import { Deaths, MOST, WINDOW_MS } from '../src/deaths';
import { bundledWheel, Environment } from '../src/environment';
import { endOf, isShort } from '../src/landing';
import { unitsToLeaveOut } from '../src/pairs';
import { Patience } from '../src/patience';
import { reasonOf, stepOf as pipStep } from '../src/pipOutput';
import { find, World } from '../src/program';
import { size, stepOf } from '../src/pull';
import { sentence, short } from '../src/status';
import { BUILD_TIME, NEEDS_COMPILER, NEEDS_PYTHON } from '../src/wording';

const MAKEFILE = fs.readFileSync(path.resolve('../../Makefile'), 'utf8');

test('the state is told with its share and the reason for silence', () => {
  const status = { state: 'loading', message: 'loading x', percent: 40 } as const;
  assert.equal(sentence(status), 'midfill: loading 40%; loading x');
  assert.equal(short(status), '$(loading~spin) midfill 40%');
  assert.equal(
    sentence({ state: 'ready', message: '', reason: 'the line is complete', indexing: 7 }),
    'midfill: ready; nothing was shown: the line is complete; the workspace is indexed to 7%',
  );
  assert.equal(sentence({ state: 'paused', message: 'paused' }), 'midfill: paused');
});

test('what the user has switched off is told, and stands in the icon only where it would otherwise say ready', () => {
  assert.equal(sentence({ state: 'ready' }, 'off for markdown'), 'midfill: ready; off for markdown');
  assert.equal(short({ state: 'ready' }, 'off for markdown'), '$(circle-slash) midfill');
  assert.equal(short({ state: 'error' }, 'off for markdown'), '$(warning) midfill');
});

test('a sentence that names a pull, or a restart, is answered with it', () => {
  const lacking = 'midfill: x-7b is not on disk (looked in /d); run `midfill models pull x-7b`, about 9,000 MB.';
  assert.deepEqual(adviceFor(lacking), { kind: 'pull', model: 'x-7b' });
  assert.deepEqual(adviceFor('midfill: model: takes effect when the server is restarted'), { kind: 'restart' });
  assert.deepEqual(adviceFor('midfill: something else'), { kind: 'read' });
});

test('a server that ends again and again is left alone, one that ends now and then is not', () => {
  const deaths = new Deaths();
  for (let i = 0; i < MOST; i++) {
    assert.ok(deaths.count(i));
  }
  assert.ok(!deaths.count(MOST));
  assert.equal(deaths.recent, MOST + 1);
  assert.ok(deaths.count(MOST + WINDOW_MS));
  deaths.forget();
  assert.equal(deaths.recent, 0);
  for (let i = 0; i < 10; i++) {
    assert.ok(deaths.count(i * WINDOW_MS));
  }
});

test('what is answered is not missed, what is not is told, what was given up is not', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let lost = 0;
  const patience = new Patience(() => 1000, () => lost++);
  let answer: (value: number) => void = () => undefined;
  const asked = patience.watch(new Promise<number>((resolve) => (answer = resolve)));
  void patience.watch(new Promise(() => undefined));
  answer(3);
  assert.equal(await asked, 3);
  context.mock.timers.tick(1000);
  assert.equal(lost, 1);
  void patience.watch(new Promise(() => undefined));
  patience.clear();
  context.mock.timers.tick(5000);
  assert.equal(lost, 1);
  await patience.watch(Promise.reject(new Error('refused'))).catch(() => undefined);
  context.mock.timers.tick(5000);
  assert.equal(lost, 1);
});

function world(...files: string[]): World {
  return { isProgram: (file) => files.includes(file), searchPath: '/a:bin:/b', home: '/home/u', isWindows: false };
}

test('the server is the one that is named, else that on the PATH, else our own', () => {
  assert.deepEqual(find('~/v/midfill', undefined, world('/home/u/v/midfill')), {
    kind: 'program',
    path: '/home/u/v/midfill',
    from: 'setting',
  });
  assert.deepEqual(find(' midfill2 ', undefined, world('/b/midfill2')), { kind: 'program', path: '/b/midfill2', from: 'setting' });
  assert.deepEqual(find('/x/midfill', '/own/midfill', world('/a/midfill')), { kind: 'missing', named: '/x/midfill' });
  assert.deepEqual(find('', '/own/midfill', world('/b/midfill')), { kind: 'program', path: '/b/midfill', from: 'PATH' });
  assert.deepEqual(find('', '/own/midfill', world()), { kind: 'program', path: '/own/midfill', from: 'own' });
  assert.deepEqual(find('', undefined, world()), { kind: 'none' });
});

test('a program of the working directory is never taken', () => {
  assert.deepEqual(find('', undefined, world('bin/midfill', path.resolve('bin/midfill'))), { kind: 'none' });
});

test('a suggestion begins behind the last pair of UTF-16 that it repeats', () => {
  assert.equal(unitsToLeaveOut('a😀b😀 = 1', 'a😀b😀 ='), 6);
  assert.equal(unitsToLeaveOut('😀x', '😀'), 2);
  assert.equal(unitsToLeaveOut('é = "🦊"', 'é = '), 0); // what is new may hold pairs
  assert.equal(unitsToLeaveOut('b😀', 'a😀'), 0);
  assert.equal(unitsToLeaveOut('x', ''), 0);
});

test('a cursor that pairs of UTF-16 have left behind is told from one that stands elsewhere', () => {
  const start = { line: 2, character: 4 };
  assert.deepEqual(endOf(start, 'a🦊b'), { line: 2, character: 8 });
  assert.deepEqual(endOf(start, 'x\r\n 🦊'), { line: 3, character: 3 });
  assert.ok(isShort({ line: 2, character: 7 }, start, 'a🦊b'));
  assert.ok(!isShort({ line: 2, character: 8 }, start, 'a🦊b'));
  assert.ok(!isShort({ line: 2, character: 6 }, start, 'a🦊b'));
  assert.ok(!isShort({ line: 1, character: 7 }, start, 'a🦊b'));
  assert.ok(!isShort({ line: 2, character: 5 }, start, 'ab'));
});

test('how far a download is', () => {
  assert.deepEqual(stepOf('downloading: 10 % (63 of 491 MB, part 2 of 6)'), {
    phase: 'downloading',
    percent: 12,
    detail: '63 of 491 MB, part 2 of 6',
  });
  assert.equal(stepOf('checking: 100 % (1,117 of 1,117 MB)')?.percent, 100);
  assert.equal(stepOf('midfill: there is no room'), undefined);
  assert.equal(size(491400064), '491 MB');
  assert.equal(size(1117320768), '1.1 GB');
});

test('what pip does, and why it failed', () => {
  assert.equal(pipStep('Collecting pygls==2.1.1 (from midfill==0.1.0)'), 'getting pygls');
  assert.equal(pipStep('Processing /x/midfill-0.1.0-py3-none-any.whl'), 'getting midfill');
  assert.equal(pipStep('  Building wheel for llama-cpp-python (pyproject.toml): started'), BUILD_TIME);
  assert.equal(pipStep('Installing collected packages: a, b'), 'installing');
  assert.equal(pipStep('  Preparing metadata'), undefined);
  const lacking = ['ERROR: Could not find a version', 'ERROR: No matching distribution found for llama-cpp-python==0.3.36'];
  assert.equal(reasonOf(lacking), 'no built wheel of llama-cpp-python was found');
  const lost = "WARNING: Retrying (...) after connection broken by 'ProxyError(...)': /simple/pip/";
  const reason = reasonOf(['Looking in indexes: https://x/simple', lost, 'ERROR: No matching distribution found for pip>=24.2']);
  assert.match(reason, /index \(https:\/\/x\/simple\) was not reached; check the network/);
  assert.match(reasonOf([lost, ...lacking]), /^the package index was not reached/);
  assert.equal(reasonOf([lost, 'ERROR: no space left', 'see above']), 'no space left'); // the next try reached it
  assert.equal(reasonOf([]), 'pip gave no reason');
});

test('lines are cut at every kind of end, and the last one needs none', () => {
  const seen: string[] = [];
  const lines = new Lines((line) => seen.push(line));
  lines.feed('a\r\nb\rc');
  lines.feed('d\n\n');
  lines.feed('e');
  lines.end();
  assert.deepEqual(seen, ['a', 'b', 'cd', 'e']);
});

test('a program is run to its end, is interrupted, or is not there', async () => {
  const done = await run(process.execPath, ['-e', 'console.log("x"); console.error("y"); process.exit(3)']);
  assert.equal(done.code, 3);
  assert.equal(done.stdout, 'x\n');
  assert.deepEqual([...done.lines].sort(), ['x', 'y']);
  assert.equal((await run('/nowhere/program', [])).code, 127);
  const stop = new AbortController();
  const endless = run(process.execPath, ['-e', 'console.log("up"); setInterval(() => 0, 1000)'], {
    stop: stop.signal,
    onLine: () => stop.abort(),
  });
  assert.notEqual((await endless).code, 0);
});

test('what a program has started ends with it', { timeout: 60_000 }, async () => {
  const stop = new AbortController();
  const endless = `[process.execPath, ['-e', 'console.log("up"); setInterval(() => 0, 1000)'], { stdio: 'inherit' }]`;
  const both = run(process.execPath, ['-e', `require('child_process').spawn(...${endless})`], {
    stop: stop.signal,
    onLine: () => stop.abort(),
  });
  assert.deepEqual((await both).lines, ['up']); // it comes when nobody holds the output any more
});

test('an environment counts when it is complete; an attempt that failed leaves none', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mfenv'));
  try {
    const environment = new Environment(path.join(folder, 'server'), '1.0');
    const plan = { python: '/nowhere/python', wheel: '/nowhere/w.whl', engineWheels: '', hasCompiler: true };
    const silent = (): void => undefined;
    const problem = await environment.make(plan, silent, silent, new AbortController().signal);
    assert.match(problem ?? '', /\/nowhere\/python is not there/);
    assert.equal(environment.program(), undefined);
    fs.mkdirSync(path.join(folder, 'server/bin'), { recursive: true });
    fs.writeFileSync(path.join(folder, 'server/bin/midfill'), '');
    assert.equal(environment.program(), undefined); // nobody has said that it is complete
    fs.writeFileSync(path.join(folder, 'server/midfill-version'), '1.0');
    assert.equal(environment.program(), path.join(folder, 'server/bin/midfill'));
    assert.ok(!environment.isStale());
    assert.ok(new Environment(path.join(folder, 'server'), '1.1').isStale());
    assert.equal(bundledWheel(folder), undefined);
    fs.mkdirSync(path.join(folder, 'wheel'));
    fs.writeFileSync(path.join(folder, 'wheel/midfill-1.whl'), '');
    assert.equal(bundledWheel(folder), path.join(folder, 'wheel/midfill-1.whl'));
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

test('building is spoken of as in the Makefile', () => {
  for (const words of [NEEDS_PYTHON, NEEDS_COMPILER, BUILD_TIME]) {
    assert.ok(MAKEFILE.includes(words), words);
  }
});
