// The settings of this extension, and those of the server that somebody has set. Defaults are never sent: the server's own
// file would lose against them.

import * as vscode from 'vscode';

export const SECTION = 'midfill';

interface Manifest {
  readonly contributes: { readonly configuration: readonly { readonly properties: Record<string, unknown> }[] };
}

export class Settings {
  private readonly names: readonly string[]; // of the server's settings, as VS Code spells them

  constructor(manifest: unknown) {
    const keys = (manifest as Manifest).contributes.configuration.flatMap((page) => Object.keys(page.properties));
    this.names = keys.map((key) => key.slice(SECTION.length + 1)).filter((name) => !name.includes('.'));
  }

  /** What the server is told: the names that are set, by the user or the workspace. */
  forServer(): Record<string, unknown> {
    const all = vscode.workspace.getConfiguration(SECTION);
    const set: Record<string, unknown> = {};
    for (const name of this.names) {
      const seen = all.inspect(name);
      const values = [seen?.workspaceFolderValue, seen?.workspaceValue, seen?.globalValue];
      if (values.some((value) => value !== undefined)) {
        set[name] = all.get(name);
      }
    }
    return set;
  }

  text(name: 'server.path' | 'server.python' | 'server.logLevel' | 'engineWheels'): string {
    return vscode.workspace.getConfiguration(SECTION).get<string>(name) ?? '';
  }

  get patienceMs(): number {
    return 1000 * (vscode.workspace.getConfiguration(SECTION).get<number>('server.patienceSeconds') ?? 10);
  }

  /** Why files of this language get nothing, if that is set; else empty. */
  whyOff(language: string | undefined): string {
    const all = vscode.workspace.getConfiguration(SECTION);
    if (all.get<boolean>('enabled') === false) {
      const isHere = all.inspect('enabled')?.workspaceValue !== undefined;
      return isHere ? 'off in this workspace' : 'off everywhere';
    }
    const off = all.get<readonly string[]>('languagesOff') ?? [];
    return language !== undefined && off.includes(language) ? `off for ${language}` : '';
  }

  /** In the workspace if that has a list of its own, else for the user. Whether the language is on now. */
  async toggleLanguage(language: string): Promise<boolean> {
    const all = vscode.workspace.getConfiguration(SECTION);
    const off = all.get<readonly string[]>('languagesOff') ?? [];
    const isOff = off.includes(language);
    const isHere = all.inspect('languagesOff')?.workspaceValue !== undefined;
    const target = isHere ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
    await all.update('languagesOff', isOff ? off.filter((one) => one !== language) : [...off, language], target);
    return isOff;
  }

  /** Whether it is on in the workspace now. */
  async toggleWorkspace(): Promise<boolean> {
    const all = vscode.workspace.getConfiguration(SECTION);
    const isOn = all.get<boolean>('enabled') !== false;
    const seen = all.inspect<boolean>('enabled');
    const elsewhere = seen?.globalValue ?? seen?.defaultValue ?? true;
    // a workspace says only what differs from the user's wish
    await all.update('enabled', elsewhere === !isOn ? undefined : !isOn, vscode.ConfigurationTarget.Workspace);
    return !isOn;
  }

  /** For all workspaces of the user. */
  async setModel(id: string): Promise<void> {
    const all = vscode.workspace.getConfiguration(SECTION);
    const isHere = all.inspect('model')?.workspaceValue !== undefined;
    await all.update('model', id, isHere ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global);
  }
}
