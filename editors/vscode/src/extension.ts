// The extension: joins the parts, and starts the server when there is a document to complete.

import * as path from 'node:path';
import * as vscode from 'vscode';
import { MessageType, ShowMessageParams } from 'vscode-languageclient/node';

import { adviceFor } from './advice';
import { DOCUMENTS } from './client';
import { register } from './commands';
import { Environment } from './environment';
import { Pages } from './pages';
import { find } from './program';
import { Server } from './server';
import { SECTION, Settings } from './settings';
import { Setup } from './setup';
import { StatusItem } from './statusItem';
import { Button, Tell, Weight } from './tell';

const OF_PROGRAM = ['server.path', 'server.logLevel'].map((name) => `${SECTION}.${name}`);

const WEIGHTS: Partial<Record<MessageType, Weight>> = { [MessageType.Error]: 'error', [MessageType.Warning]: 'warning' };

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel('midfill', { log: true });
  const settings = new Settings(context.extension.packageJSON);
  const status = new StatusItem(() => settings.whyOff(vscode.window.activeTextEditor?.document.languageId));
  const tell = new Tell(log);
  const pages = new Pages();
  const version = String((context.extension.packageJSON as { version: string }).version);
  const environment = new Environment(path.join(context.globalStorageUri.fsPath, 'server'), version);
  const setup = new Setup(environment, context.extensionPath, settings, status, tell, log, begin);
  const running = new Server(settings, status, tell, log, hear);
  server = running;

  function locate(): string | undefined {
    const found = find(settings.text('server.path'), environment.program());
    if (found.kind === 'program') {
      return found.path;
    }
    if (found.kind === 'none') {
      setup.offer();
      return undefined;
    }
    const open = 'workbench.action.openSettings';
    const sentence = `the server "${found.named}" is not there; install midfill there, or change the setting midfill.server.path`;
    status.heard({ state: 'absent', message: sentence });
    tell.once(`midfill: ${sentence}`, 'error', [
      { title: 'Open Settings', run: () => vscode.commands.executeCommand(open, 'midfill.server.path') },
    ]);
    return undefined;
  }

  async function begin(): Promise<void> {
    status.show();
    let program = locate();
    if (program !== undefined && program === environment.program() && environment.isStale()) {
      await setup.update();
      program = locate();
    }
    if (program !== undefined) {
      await running.start(program);
    }
  }

  /** A sentence of the server for the user, with a button where there is something to do. */
  function hear(params: ShowMessageParams): void {
    const advice = adviceFor(params.message);
    const buttons: Button[] = [];
    if (advice.kind === 'pull') {
      const program = running.path;
      buttons.push({ title: `Download ${advice.model}`, run: () => setup.download(program, advice.model) });
      buttons.push({ title: 'Choose Another', run: () => vscode.commands.executeCommand('midfill.chooseModel') });
    } else if (advice.kind === 'restart') {
      buttons.push({ title: 'Restart Server', run: () => vscode.commands.executeCommand('midfill.restartServer') });
    }
    tell.once(params.message, WEIGHTS[params.type] ?? 'info', buttons);
  }

  let isBegun = false;
  function beginWith(document: vscode.TextDocument): void {
    if (!isBegun && vscode.languages.match(DOCUMENTS, document) > 0) {
      isBegun = true;
      void begin();
    }
  }

  context.subscriptions.push(
    log,
    status,
    pages,
    running,
    ...register({ server: running, setup, settings, status, pages, tell, log, locate }),
    vscode.workspace.onDidOpenTextDocument(beginWith),
    vscode.window.onDidChangeActiveTextEditor(() => status.refresh()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (!event.affectsConfiguration(SECTION)) {
        return;
      }
      status.refresh();
      running.configure();
      if (isBegun && OF_PROGRAM.some((name) => event.affectsConfiguration(name))) {
        void begin();
      }
    }),
  );
  vscode.workspace.textDocuments.forEach(beginWith);
}

/** The server has ended when this is over. */
export async function deactivate(): Promise<void> {
  await server?.stop();
}
