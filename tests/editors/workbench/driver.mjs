// The keyboard and the eyes of the tests: one code-server, one browser, a page for each window. `node driver.mjs SETUP`, with
// SETUP a JSON file; then a JSON object per line on standard input, and an answer for each on standard output. A window may have
// a code-server of its own (a "machine"), with other programs and nothing installed.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import readline from 'node:readline';

const setup = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const { chromium } = createRequire(`${setup.modules}/package.json`)('playwright-core');
const here = new URL('.', import.meta.url).pathname;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const CODE_SERVER = [
  '--require', `${here}stub-argon2.cjs`, `${setup.modules}/node_modules/code-server/out/node/entry.js`,
  '--auth', 'none', '--disable-telemetry', '--disable-update-check', '--disable-workspace-trust',
  '--disable-getting-started-override', '--extensions-dir', `${setup.folder}/extensions`,
];
const BROWSER = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
];

function codeServer(data, environment, ...words) {
  const log = fs.openSync(`${setup.folder}/code-server.log`, 'a');
  const whole = { ...environment, EXTENSIONS_GALLERY: '{"serviceUrl":"http://127.0.0.1:9/none"}' };
  return spawn(process.execPath, [...CODE_SERVER, '--user-data-dir', data, ...words], { env: whole, stdio: ['ignore', log, log] });
}

async function freePort() {
  const server = net.createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

let browser;
const machines = new Map(); // by name; '' is the one that windows share
const pages = new Map();

async function machine(name, data, environment) {
  for (let left = 2; ; left--) {
    const port = await freePort();
    const server = codeServer(data, environment, '--bind-addr', `127.0.0.1:${port}`);
    machines.set(name, { port, server });
    while (server.exitCode === null) {
      if (await fetch(`http://127.0.0.1:${port}/healthz`).then((answer) => answer.ok, () => false)) {
        return;
      }
      await sleep(50);
    }
    if (left === 0) { // on a busy machine it gives up on its own child after ten seconds
      throw new Error(`code-server has ended with ${server.exitCode}`);
    }
  }
}

async function start() {
  const install = setup.vsix.flatMap((file) => ['--install-extension', file]);
  const code = await new Promise((done) => codeServer(setup.data, setup.environment, ...install).once('exit', done));
  if (code !== 0) {
    throw new Error(`the extensions were not installed (exit code ${code})`);
  }
  const launched = chromium.launch({ executablePath: setup.chromium, env: { ...process.env, ...setup.browser }, args: BROWSER, timeout: 180_000 });
  await machine('', setup.data, setup.environment);
  browser = await launched;
}

/** Every sentence that notifications have shown, as they came. */
function watchNotifications() {
  const said = (window.__said = []);
  const look = () => {
    for (const one of document.querySelectorAll('.notification-list-item-message')) {
      if (one.textContent && !said.includes(one.textContent)) {
        said.push(one.textContent);
      }
    }
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true });
}

/** The text that is shown and not there: the rest of the cursor's line, then the lines below it. */
function readGhost() {
  const clean = (text) => text.replace(/\u00a0/g, ' ').replace(/\u200b|\u200c/g, '');
  const editor = document.querySelector('.editor-instance .monaco-editor.focused') ?? document.querySelector('.editor-instance .monaco-editor');
  if (!editor) {
    return '';
  }
  const spans = [...editor.querySelectorAll('.view-lines .view-line [class*="ghost-text"]')];
  const inLine = spans.filter((one) => !one.closest('.view-zones')).map((one) => clean(one.textContent));
  const blocks = [...editor.querySelectorAll('.view-zones .suggest-preview-text .view-line, .view-zones [class*="ghost-text"] .view-line')];
  const below = [...new Set(blocks)]
    .map((one) => ({ top: one.getBoundingClientRect().top, text: clean(one.textContent) }))
    .sort((a, b) => a.top - b.top)
    .map((one) => one.text);
  return [inLine.join(''), ...below].join('\n');
}

const settled = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

const does = {
  async machine({ name, data, environment }) {
    await machine(name, data, environment);
  },
  async leave({ name }) {
    const { server } = machines.get(name);
    machines.delete(name);
    const gone = new Promise((done) => server.once('exit', done));
    server.kill('SIGTERM');
    await gone;
  },
  async open({ window, workspace, name = '', width = 1000, height = 640 }) {
    const context = await browser.newContext({ viewport: { width, height }, deviceScaleFactor: setup.scale ?? 1 });
    const page = await context.newPage();
    page.setDefaultTimeout(180_000);
    await page.addInitScript(watchNotifications);
    pages.set(window, page);
    await page.goto(`http://127.0.0.1:${machines.get(name).port}/?folder=${encodeURIComponent(workspace)}`);
    await page.waitForSelector('.monaco-workbench .part.editor');
  },
  async focus({ window }) {
    await pages.get(window).waitForFunction(() => document.activeElement?.closest('.editor-instance') !== null);
    await settled(pages.get(window));
  },
  async keys({ window, keys }) {
    const page = pages.get(window);
    for (const key of keys) {
      if (key.text !== undefined) {
        await page.keyboard.type(key.text);
      } else {
        await page.keyboard.press(key.press);
      }
    }
    await settled(page);
  },
  async ghost({ window }) {
    return pages.get(window).evaluate(readGhost);
  },
  async said({ window }) {
    return pages.get(window).evaluate(() => window.__said);
  },
  async status({ window }) {
    const item = pages.get(window).locator('#midfill\\.midfill\\.midfill\\.status a, #midfill\\.midfill\\.midfill\\.status .statusbar-item-label');
    return (await item.count()) ? ((await item.first().getAttribute('aria-label')) ?? '') : '';
  },
  async press({ window, button, within = '.notification-list-item' }) {
    const page = pages.get(window);
    const one = page.locator(`${within} .monaco-button, ${within} .monaco-text-button`, { hasText: button }).first();
    await one.click();
    await settled(page);
  },
  async palette({ window, title, then = [] }) {
    const page = pages.get(window);
    await page.keyboard.press('F1');
    const box = page.locator('.quick-input-widget input[type=text]');
    await box.fill(`>${title}`);
    const row = page.locator('.quick-input-list .monaco-list-row', { hasText: title }).first();
    await row.waitFor();
    await row.click();
    for (const label of then) {
      const next = page.locator('.quick-input-list .monaco-list-row', { hasText: label }).first();
      await next.waitFor();
      await next.click();
    }
    await settled(page);
  },
  async rows({ window }) {
    return pages.get(window).$$eval('.quick-input-list .monaco-list-row', (rows) => rows.map((row) => row.getAttribute('aria-label') ?? row.textContent));
  },
  async picture({ window, file, clip }) {
    await pages.get(window).screenshot({ path: file, clip: clip ?? undefined });
  },
  async html({ window, selector }) {
    return pages.get(window).$$eval(selector, (all) => all.map((one) => one.outerHTML));
  },
  async close({ window }) {
    const page = pages.get(window);
    pages.delete(window);
    await page.goto('about:blank'); // the window says good-bye, and its extensions end
    await page.context().close();
  },
};

async function end() {
  await browser?.close().catch(() => undefined);
  machines.forEach(({ server }) => server.kill('SIGTERM'));
}

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
try {
  await start();
  say({ value: `VS Code ${setup.version}, Chromium ${browser.version()}` });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    try {
      say({ value: (await does[asked.do](asked)) ?? null });
    } catch (error) {
      say({ error: String(error.stack ?? error) });
    }
  }
} catch (error) {
  say({ error: String(error.stack ?? error) });
} finally {
  await end();
}
