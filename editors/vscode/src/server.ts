// The language server of this window: started, connected, restarted, ended. Owns its process. Refuses to find it (`program`),
// to install it (`setup`), and to know what its sentences mean to the user (`onMessage`).

import { ChildProcess, spawn } from 'node:child_process';
import * as os from 'node:os';
import * as vscode from 'vscode';
import {
  DidChangeConfigurationNotification,
  ExecuteCommandRequest,
  LanguageClient,
  ShowMessageNotification,
  ShowMessageParams,
} from 'vscode-languageclient/node';

import { makeClient } from './client';
import { Deaths } from './deaths';
import { Patience } from './patience';
import { SECTION, Settings } from './settings';
import { State, Status } from './status';
import { StatusItem } from './statusItem';
import { Tell } from './tell';

const STOP_MS = 2_000;
const PAUSE_MS = 500; // before a server that has ended is started again

interface Running {
  readonly process: ChildProcess;
  readonly client: LanguageClient;
  readonly lastWords: string[];
  isConnected: boolean;
  isLeaving: boolean;
}

export class Server implements vscode.Disposable {
  private running: Running | undefined;
  private program = '';
  private readonly deaths = new Deaths();
  private readonly patience: Patience;

  constructor(
    private readonly settings: Settings,
    private readonly status: StatusItem,
    private readonly tell: Tell,
    private readonly log: vscode.LogOutputChannel,
    private readonly onMessage: (params: ShowMessageParams) => void,
  ) {
    this.patience = new Patience(() => settings.patienceMs, () => this.hangs());
  }

  get isRunning(): boolean {
    return this.running?.isConnected ?? false;
  }

  /** What starts it; empty: nothing was started yet. */
  get path(): string {
    return this.program;
  }

  /** Returns when it is connected, or has failed. */
  async start(program: string): Promise<void> {
    await this.stop();
    this.program = program;
    this.status.heard({ state: 'starting' });
    const level = this.settings.text('server.logLevel');
    const process_ = spawn(program, ['lsp'], {
      cwd: os.homedir(), // not the workspace: nothing of it may be taken for a part of the server
      env: level ? { ...process.env, MIDFILL_LOG: level } : process.env,
      stdio: ['pipe', 'pipe', 'pipe'],
      windowsHide: true,
    });
    const client = makeClient(process_, this.settings, this.patience, this.log);
    const running: Running = { process: process_, client, lastWords: [], isConnected: false, isLeaving: false };
    this.running = running;
    process_.stdin.on('error', (error) => this.log.debug(`the server takes nothing any more: ${error.message}`));
    process_.stderr.setEncoding('utf8').on('data', (text: string) => {
      running.lastWords.push(...text.split('\n').filter((line) => line.trim() !== ''));
      running.lastWords.splice(0, Math.max(0, running.lastWords.length - 20));
    });
    process_.on('error', (error) => {
      running.lastWords.push(error.message);
      this.ended(running, 'it could not be started');
    });
    process_.on('exit', (code, signal) => this.ended(running, signal ? `signal ${signal}` : `exit code ${code}`));
    client.onNotification('midfill/status', (status: Status & { state: State }) => {
      if (this.running === running) {
        this.status.heard(status);
      }
    });
    client.onNotification(ShowMessageNotification.type, (params) => this.onMessage(params));
    try {
      await client.start();
      running.isConnected = true;
      void vscode.commands.executeCommand('setContext', 'midfill.isRunning', true);
    } catch (error) {
      this.log.error(`no connection to the server: ${String(error)}`);
      process_.kill();
    }
  }

  /** Returns when the process has ended, whether it wanted to or not. */
  async stop(): Promise<void> {
    const running = this.running;
    this.running = undefined;
    if (!running) {
      return;
    }
    running.isLeaving = true;
    this.patience.clear();
    void vscode.commands.executeCommand('setContext', 'midfill.isRunning', false);
    const { process: process_, client } = running;
    const gone = new Promise<void>((resolve) => process_.once('exit', () => resolve()));
    try {
      await client.stop(STOP_MS);
    } catch (error) {
      this.log.info(`the server did not leave by itself: ${String(error)}`);
    }
    if (process_.pid !== undefined && process_.exitCode === null && process_.signalCode === null) {
      const timer = setTimeout(() => process_.kill('SIGKILL'), STOP_MS);
      await gone;
      clearTimeout(timer);
    }
  }

  /** By the user's wish. */
  async restart(program: string): Promise<void> {
    this.deaths.forget();
    this.tell.forget();
    await this.start(program);
  }

  /** Runs one of the server's own commands. Rejects if it does not run. */
  async run<T>(command: string, ...words: readonly unknown[]): Promise<T> {
    if (!this.running?.isConnected) {
      throw new Error('midfill is not running here; open a file, or run "midfill: Restart Server"');
    }
    const done: unknown = await this.running.client.sendRequest(ExecuteCommandRequest.type, { command, arguments: [...words] });
    return done as T;
  }

  /** The settings have changed. */
  configure(): void {
    if (this.running?.isConnected) {
      const settings = { [SECTION]: this.settings.forServer() };
      void this.running.client.sendNotification(DidChangeConfigurationNotification.type, { settings });
    }
  }

  private hangs(): void {
    const seconds = this.settings.patienceMs / 1000;
    this.tell.once(
      `midfill has not answered for ${seconds} second${seconds === 1 ? '' : 's'}; "midfill: Restart Server" starts it again`,
      'warning',
      [{ title: 'Restart Server', run: () => vscode.commands.executeCommand('midfill.restartServer') }],
    );
  }

  private ended(running: Running, how: string): void {
    if (running.isLeaving || this.running !== running) {
      return;
    }
    this.running = undefined;
    this.patience.clear();
    void vscode.commands.executeCommand('setContext', 'midfill.isRunning', false);
    const last = running.lastWords.at(-1);
    this.log.error(`the server has ended (${how})`);
    running.client.dispose().catch((error: unknown) => this.log.debug(`the client ends: ${String(error)}`));
    const log = { title: 'Show Log', run: () => this.log.show() };
    const restart = { title: 'Restart Server', run: () => vscode.commands.executeCommand('midfill.restartServer') };
    if (running.isConnected && this.deaths.count(Date.now())) {
      this.status.heard({ state: 'ended', message: `the server has ended (${how}), it is started again` });
      this.tell.once(`midfill: the server has ended (${how}); it is started again`, 'warning', [log]);
      setTimeout(() => {
        if (this.running === undefined) {
          void this.start(this.program);
        }
      }, PAUSE_MS);
      return;
    }
    const often = running.isConnected ? `has ended ${this.deaths.recent} times within three minutes` : 'could not be started';
    const why = last === undefined ? how : `${how}: ${last}`;
    this.status.heard({ state: 'ended', message: `the server ${often} (${why})` });
    this.tell.once(`midfill: the server ${often} (${why}); "midfill: Restart Server" tries it again`, 'error', [restart, log]);
  }

  dispose(): void {
    void this.stop();
  }
}
