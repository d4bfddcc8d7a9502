// The commands of the palette and of the status item: one function each.

import * as vscode from 'vscode';

import { run } from './commandLine';
import { chooseModel } from './models';
import { Pages } from './pages';
import { Server } from './server';
import { Settings } from './settings';
import { Setup } from './setup';
import { StatusItem } from './statusItem';
import { Tell } from './tell';

export interface Parts {
  readonly server: Server;
  readonly setup: Setup;
  readonly settings: Settings;
  readonly status: StatusItem;
  readonly pages: Pages;
  readonly tell: Tell;
  readonly log: vscode.LogOutputChannel;
  /** The program as the settings name it now; undefined: there is none, and the user was told. */
  readonly locate: () => string | undefined;
}

interface Readiness {
  readonly ready: boolean;
  readonly model: string;
  readonly reason?: string;
}

const PAUSES = [
  { label: 'Until I resume', minutes: undefined },
  { label: 'For 5 minutes', minutes: 5 },
  { label: 'For 15 minutes', minutes: 15 },
  { label: 'For an hour', minutes: 60 },
];

export function register(parts: Parts): vscode.Disposable[] {
  const { server, setup, settings, status, pages, tell, log, locate } = parts;

  async function restartServer(): Promise<void> {
    const program = locate();
    if (program !== undefined) {
      await server.restart(program);
    }
  }

  async function toggleLanguage(): Promise<void> {
    const language = vscode.window.activeTextEditor?.document.languageId;
    if (language === undefined) {
      await tell.say('midfill: open a file of the language first');
      return;
    }
    const isOn = await settings.toggleLanguage(language);
    await tell.say(`midfill is ${isOn ? 'on' : 'off'} for ${language}`);
  }

  async function toggleWorkspace(): Promise<void> {
    if (vscode.workspace.workspaceFolders === undefined) {
      await tell.say('midfill: there is no workspace here; open a folder first, or change the setting midfill.enabled');
      return;
    }
    const isOn = await settings.toggleWorkspace();
    await tell.say(`midfill is ${isOn ? 'on' : 'off'} in this workspace`);
  }

  async function snooze(): Promise<void> {
    const chosen = await vscode.window.showQuickPick(PAUSES, { title: 'No suggestions' });
    if (chosen) {
      await vscode.commands.executeCommand('editor.action.inlineSuggest.hide');
      await server.run('midfill.pause', ...(chosen.minutes === undefined ? [] : [chosen.minutes]));
    }
  }

  async function choose(): Promise<void> {
    const program = locate();
    const choice = program === undefined ? undefined : await chooseModel(program, tell);
    if (program === undefined || choice === undefined) {
      return;
    }
    await server.stop(); // it reads the setting when it starts, and has nothing to say about a change
    await settings.setModel(choice.id);
    if (choice.isOnDisk || !(await setup.download(program, choice.id))) {
      await server.restart(program);
    }
  }

  async function restartEngine(): Promise<void> {
    const done = await server.run<Readiness>('midfill.restartEngine');
    await tell.say(done.ready ? `midfill: ${done.model} is ready` : `midfill: ${done.reason ?? 'it is not ready'}`);
  }

  async function doctor(): Promise<void> {
    const program = locate();
    if (program === undefined) {
      return;
    }
    const options = { location: vscode.ProgressLocation.Notification, title: 'midfill checks itself' };
    const done = await vscode.window.withProgress(options, () => run(program, ['doctor']));
    await pages.show('doctor.txt', done.lines.join('\n'));
  }

  async function menu(): Promise<void> {
    const language = vscode.window.activeTextEditor?.document.languageId;
    const off = settings.whyOff(language);
    const items: (vscode.QuickPickItem & { readonly command: string })[] = [];
    const add = (label: string, command: string): number => items.push({ label, command });
    if (status.now.state === 'absent') {
      add('$(cloud-download) Set up', 'midfill.setUp');
    }
    if (status.now.state === 'paused') {
      add('$(debug-start) Resume', 'midfill.resume');
    } else {
      add('$(debug-pause) Snooze…', 'midfill.snooze');
    }
    if (language !== undefined) {
      add(`$(circle-slash) Switch ${off.startsWith('off for') ? 'on' : 'off'} for ${language}`, 'midfill.toggleLanguage');
    }
    const isOff = off.startsWith('off in') || off.startsWith('off every');
    add(`$(circle-slash) Switch ${isOff ? 'on' : 'off'} in this workspace`, 'midfill.toggleWorkspace');
    add('$(package) Choose the model…', 'midfill.chooseModel');
    add('$(search) Show the context of the last suggestion', 'midfill.showContext');
    add('$(refresh) Restart the engine, for all windows', 'midfill.restartTheEngine');
    add('$(refresh) Restart the server of this window', 'midfill.restartServer');
    add('$(checklist) Check the installation', 'midfill.doctor');
    add('$(output) Show the log', 'midfill.showLog');
    add('$(gear) Settings', 'midfill.openSettings');
    const chosen = await vscode.window.showQuickPick(items, { title: status.sentence() });
    if (chosen) {
      await vscode.commands.executeCommand(chosen.command);
    }
  }

  async function page(name: string, command: string): Promise<void> {
    await pages.show(`${name}.json`, JSON.stringify(await server.run(command), undefined, 2));
  }

  const all: Record<string, () => unknown> = {
    'midfill.menu': menu,
    'midfill.setUp': () => setup.install(),
    'midfill.toggleLanguage': toggleLanguage,
    'midfill.toggleWorkspace': toggleWorkspace,
    'midfill.snooze': snooze,
    'midfill.resume': () => server.run('midfill.pause', 0),
    'midfill.chooseModel': choose,
    'midfill.showContext': () => page('explain', 'midfill.explain'),
    'midfill.showStatistics': () => page('stats', 'midfill.stats'),
    'midfill.restartTheEngine': restartEngine,
    'midfill.restartServer': restartServer,
    'midfill.doctor': doctor,
    'midfill.showLog': () => log.show(),
    'midfill.openSettings': () => vscode.commands.executeCommand('workbench.action.openSettings', '@ext:midfill.midfill'),
  };
  return Object.entries(all).map(([name, command]) =>
    vscode.commands.registerCommand(name, async () => {
      try {
        await command();
      } catch (error) {
        await tell.say(`midfill: ${error instanceof Error ? error.message.replace(/^midfill:? /, '') : String(error)}`, 'warning');
      }
    }),
  );
}
