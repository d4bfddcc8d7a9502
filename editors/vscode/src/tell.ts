// Sentences for the user, each of them once, with what can be done about it as buttons. Refuses to decide what is worth telling.

import * as vscode from 'vscode';

export type Weight = 'error' | 'warning' | 'info';

export interface Button {
  readonly title: string;
  readonly run: () => unknown;
}

export class Tell {
  private told = new Set<string>();

  constructor(private readonly log: vscode.LogOutputChannel) {}

  once(text: string, weight: Weight = 'warning', buttons: readonly Button[] = []): void {
    if (this.told.has(text)) {
      return;
    }
    this.told.add(text);
    void this.say(text, weight, buttons);
  }

  /** Whether a button was chosen. */
  async say(text: string, weight: Weight = 'info', buttons: readonly Button[] = []): Promise<boolean> {
    this.log.info(`told: ${text}`);
    const show = {
      error: vscode.window.showErrorMessage,
      warning: vscode.window.showWarningMessage,
      info: vscode.window.showInformationMessage,
    }[weight];
    const chosen = await show(text, ...buttons.map((button) => button.title));
    const button = buttons.find((one) => one.title === chosen);
    await button?.run();
    return button !== undefined;
  }

  /** What was told may be told again: the user has started the server anew. */
  forget(): void {
    this.told.clear();
  }
}
