// The item in the status bar: what the server says of itself, or what this extension does in its place.

import * as vscode from 'vscode';

import { isGrave, sentence, short, Status } from './status';

export class StatusItem implements vscode.Disposable {
  private readonly item: vscode.StatusBarItem;
  private server: Status = { state: 'starting' };
  private work: Status | undefined;

  /** whyOff: for the document in front; empty: it is on. */
  constructor(private readonly whyOff: () => string) {
    this.item = vscode.window.createStatusBarItem('midfill.status', vscode.StatusBarAlignment.Right, 100);
    this.item.name = 'midfill';
    this.item.command = 'midfill.menu';
  }

  /** From now on there is something to show. */
  show(): void {
    this.refresh();
    this.item.show();
  }

  /** The server has said this of itself. */
  heard(status: Status): void {
    this.server = status;
    this.refresh();
  }

  /** This extension is at work: that is shown until it says `undefined`. */
  working(status: Status | undefined): void {
    this.work = status;
    this.refresh();
  }

  get now(): Status {
    return this.work ?? this.server;
  }

  sentence(): string {
    return sentence(this.now, this.whyOff());
  }

  refresh(): void {
    const off = this.whyOff();
    const said = sentence(this.now, off);
    this.item.text = short(this.now, off);
    this.item.tooltip = `${said}\n\nClick for more.`;
    this.item.accessibilityInformation = { label: said, role: 'button' };
    this.item.backgroundColor = isGrave(this.now) ? new vscode.ThemeColor('statusBarItem.warningBackground') : undefined;
    void vscode.commands.executeCommand('setContext', 'midfill.isPaused', this.server.state === 'paused');
  }

  dispose(): void {
    this.item.dispose();
  }
}
