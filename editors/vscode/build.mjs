// dist/extension.js, or with --tests the unit tests as out/*.test.cjs.
import * as fs from 'node:fs';
import { build } from 'esbuild';

const isTests = process.argv.includes('--tests');
const common = { bundle: true, platform: 'node', target: 'node20', format: 'cjs', logLevel: 'warning' };

if (isTests) {
  fs.rmSync('out', { recursive: true, force: true });
  const tests = fs.readdirSync('test').filter((name) => name.endsWith('.test.ts'));
  await build({ ...common, entryPoints: tests.map((name) => `test/${name}`), outdir: 'out', outExtension: { '.js': '.cjs' } });
} else {
  await build({ ...common, entryPoints: ['src/extension.ts'], outfile: 'dist/extension.js', external: ['vscode'], minify: true });
}
