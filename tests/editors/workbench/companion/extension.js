// What the tests ask of the editor itself: which text there is, where the cursor stands, open that file. A socket beside the
// workspace, a JSON object per line. It knows nothing of the client under test.
'use strict';
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const vscode = require('vscode');

const run = (command, ...words) => vscode.commands.executeCommand(command, ...words);
// What the window sent before it answered has arrived by then.
const settled = () => run('setContext', 'companion.settled', true);
const editor = () => vscode.window.activeTextEditor;

const answers = {
  async open({ path: file }) {
    await run('vscode.open', vscode.Uri.file(file), { viewColumn: vscode.ViewColumn.One, preview: false });
    if (vscode.window.tabGroups.all.length > 1) {
      await run('workbench.action.closeEditorsInOtherGroups');
    }
    await run('workbench.action.focusActiveEditorGroup');
    return editor()?.document.uri.fsPath;
  },
  async place({ line, column }) {
    const text = editor().document.lineAt(line).text;
    const units = [...text].slice(0, column).join('').length;
    editor().selection = new vscode.Selection(line, units, line, units);
    await settled();
  },
  async text() {
    await settled();
    return editor()?.document.getText() ?? '';
  },
  async cursor() {
    await settled();
    const at = editor().selection.active;
    return [at.line, [...editor().document.lineAt(at.line).text.slice(0, at.character)].length];
  },
  async isDirty() {
    await settled();
    return editor()?.document.isDirty ?? false;
  },
  async close({ path: file }) {
    await run('vscode.open', vscode.Uri.file(file));
    await run('workbench.action.revertAndCloseActiveEditor');
  },
  async beside() {
    const others = vscode.window.visibleTextEditors.filter((one) => one.document.uri.scheme === 'midfill');
    return others.map((one) => one.document.getText()).join('\n');
  },
  async set({ name, value }) {
    await vscode.workspace.getConfiguration().update(name, value, vscode.ConfigurationTarget.Workspace);
  },
  async get({ name }) {
    return vscode.workspace.getConfiguration().get(name);
  },
  async commands() {
    return (await vscode.commands.getCommands(true)).filter((name) => name.startsWith('midfill.'));
  },
};

exports.activate = (context) => {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  if (folder === undefined) {
    return;
  }
  const place = path.join(path.dirname(folder), 'code.sock');
  fs.rmSync(place, { force: true });
  const server = net.createServer((socket) => {
    let rest = '';
    socket.setEncoding('utf8').on('data', async (data) => {
      rest += data;
      for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
        const asked = JSON.parse(rest.slice(0, end));
        rest = rest.slice(end + 1);
        let answer;
        try {
          answer = { value: (await answers[asked.do](asked)) ?? null };
        } catch (error) {
          answer = { error: String(error.stack) };
        }
        socket.write(JSON.stringify(answer) + '\n');
      }
    });
    socket.on('error', () => undefined);
  });
  server.listen(place);
  context.subscriptions.push({ dispose: () => server.close() });
};
