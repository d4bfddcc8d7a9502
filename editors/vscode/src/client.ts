// The language client, made quiet: what it has to say goes into the log, and what users are told is decided elsewhere.

import { ChildProcess } from 'node:child_process';
import * as vscode from 'vscode';
import {
  CloseAction,
  ConfigurationParams,
  ErrorAction,
  LanguageClient,
  LanguageClientOptions,
  RevealOutputChannelOn,
} from 'vscode-languageclient/node';

import { endOf, isShort } from './landing';
import { unitsToLeaveOut } from './pairs';
import { Patience } from './patience';
import { SECTION, Settings } from './settings';

/** The documents that are completed: files, new ones, cells of notebooks, and those of a repository that is not on this disk. */
export const DOCUMENTS = ['file', 'untitled', 'vscode-notebook-cell', 'vscode-vfs'].map((scheme) => ({ scheme }));

const KEPT = 12;

class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }

  override warn(message: string, data?: unknown): void {
    super.warn(message, data, false);
  }
}

function startBehindPairs(item: vscode.InlineCompletionItem, document: vscode.TextDocument, cursor: vscode.Position): void {
  if (item.range === undefined || typeof item.insertText !== 'string') {
    return;
  }
  const covered = document.getText(new vscode.Range(item.range.start, cursor));
  const units = unitsToLeaveOut(item.insertText, covered);
  if (units > 0) {
    item.insertText = item.insertText.slice(units);
    item.range = item.range.with(item.range.start.translate(0, units));
  }
}

/** The item may have been taken: then the cursor stands at its end, or does so now. */
function mendCursor(item: vscode.InlineCompletionItem): void {
  const editor = vscode.window.activeTextEditor;
  if (!editor || item.range === undefined || typeof item.insertText !== 'string') {
    return;
  }
  const { start } = item.range;
  const { line, character } = endOf(start, item.insertText);
  const end = new vscode.Position(line, character);
  const there = editor.document.getText(new vscode.Range(start, end)).replaceAll('\r\n', '\n');
  if (there === item.insertText.replaceAll('\r\n', '\n') && isShort(editor.selection.active, start, item.insertText)) {
    editor.selection = new vscode.Selection(end, end);
  }
}

/** process: started, and nobody has read from it. */
export function makeClient(
  process: ChildProcess,
  settings: Settings,
  patience: Patience,
  log: vscode.LogOutputChannel,
): LanguageClient {
  let offered: vscode.InlineCompletionItem[] = []; // by the last answers: one may be shown on while the next is asked for
  const options: LanguageClientOptions = {
    documentSelector: DOCUMENTS,
    outputChannel: log,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    initializationFailedHandler: () => false,
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
    },
    middleware: {
      workspace: {
        configuration: (params: ConfigurationParams, token, next) =>
          params.items.every((item) => item.section === SECTION)
            ? params.items.map(() => settings.forServer())
            : next(params, token),
      },
      // the item in the status bar shows it
      handleWorkDoneProgress: () => undefined,
      provideInlineCompletionItems: async (document, position, context, token, next) => {
        const answer = patience.watch(Promise.resolve(next(document, position, context, token)));
        // what was cancelled is not waited for, even if the server hangs
        const cancelled = new Promise<undefined>((resolve) => token.onCancellationRequested(() => resolve(undefined)));
        const items = await Promise.race([answer, cancelled]);
        const fresh = Array.isArray(items) ? items : (items?.items ?? []);
        fresh.forEach((item) => startBehindPairs(item, document, position));
        offered = [...fresh, ...offered].slice(0, KEPT);
        return items;
      },
      executeCommand: (command, words, next) => {
        const isIt = ({ command: told }: vscode.InlineCompletionItem): boolean =>
          told?.command === command && told.arguments?.[0] === words[0];
        offered.filter(isIt).forEach(mendCursor);
        return next(command, words);
      },
    },
  };
  return new QuietClient('midfill', 'midfill', () => Promise.resolve(process), options);
}
