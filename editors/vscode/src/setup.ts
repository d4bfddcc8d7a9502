// From nothing to a server with a model: what the user is asked, and how far it is. The user agrees once, to all of it; a model
// that is larger than was said then is asked for again.

import * as vscode from 'vscode';

import { bundledWheel, Environment } from './environment';
import { list, pull, size } from './pull';
import { findPython, hasCompiler } from './python';
import { Settings } from './settings';
import { Status } from './status';
import { StatusItem } from './statusItem';
import { Button, Tell } from './tell';
import { BUILD_TIME, NEEDS_COMPILER } from './wording';

const AGREED_BYTES = 2e9;

export class Setup {
  private isBusy = false;

  /** onReady: there is something new to start. */
  constructor(
    private readonly environment: Environment,
    private readonly extensionFolder: string,
    private readonly settings: Settings,
    private readonly status: StatusItem,
    private readonly tell: Tell,
    private readonly log: vscode.LogOutputChannel,
    private readonly onReady: () => Promise<void>,
  ) {}

  /** There is no server: ask whether it is to be set up, once. */
  offer(): void {
    this.status.heard({ state: 'absent', message: '"midfill: Set Up" does all of it' });
    const agree: Button = { title: 'Set Up', run: () => this.install() };
    if (!hasCompiler() && !this.settings.text('engineWheels')) {
      this.tell.once(`midfill: ${this.needsCompiler()}`, 'warning', [{ ...agree, title: 'Set Up Anyway' }, this.openWheels()]);
      return;
    }
    this.tell.once(
      'midfill completes code with a model on this machine. Set it up? It makes a Python environment of its own ' +
        `(${BUILD_TIME}, the first time) and downloads the model that suits this machine (0.5 to 2 GB).`,
      'info',
      [agree, { title: 'Not Now', run: () => undefined }],
    );
  }

  /** The environment, then the model that suits this machine. By the user's wish. */
  async install(): Promise<void> {
    const program = await this.alone('midfill is being set up', (report, stop) => this.makeEnvironment(report, stop));
    if (program === undefined) {
      return;
    }
    const listing = await list(program);
    if (typeof listing === 'string') {
      this.failed(listing, () => this.install());
      return;
    }
    const chosen = listing.models.find((model) => model.id === listing.automatic_choice.id);
    if (listing.setting === 'auto' && chosen && !chosen.on_disk && !listing.models.some((model) => model.on_disk)) {
      const download: Button = { title: 'Download', run: () => this.download(program, chosen.id) };
      if (chosen.bytes > AGREED_BYTES) {
        await this.tell.say(`midfill: ${chosen.id} suits this machine, ${size(chosen.bytes)}.`, 'info', [download]);
        return;
      }
      await this.download(program, chosen.id);
      return;
    }
    await this.onReady();
  }

  /** A server of this version in place of the older one that this extension has made; what was agreed to then still holds. */
  async update(): Promise<void> {
    await this.alone('midfill is being updated', (report, stop) => this.makeEnvironment(report, stop));
  }

  /** The model with that id. By the user's wish. Whether it is on disk now. */
  async download(program: string, id: string): Promise<boolean> {
    const isThere = await this.alone(`midfill gets ${id}`, async (report, stop) => {
      const problem = await pull(
        program,
        id,
        (step) => report({ state: 'downloading', percent: step.percent, message: `${step.phase} ${id}: ${step.detail}` }),
        (line) => this.log.info(line),
        stop,
      );
      if (problem !== undefined) {
        this.failed(problem, () => this.download(program, id));
        return undefined;
      }
      return true;
    });
    if (isThere) {
      await this.onReady();
    }
    return isThere ?? false;
  }

  private async makeEnvironment(report: (status: Status) => void, stop: AbortSignal): Promise<string | undefined> {
    const again = (): Promise<void> => this.install();
    const wheel = bundledWheel(this.extensionFolder);
    if (wheel === undefined) {
      this.failed('this extension was packaged without the server; install midfill and name it in midfill.server.path', again);
      return undefined;
    }
    const python = await findPython(this.settings.text('server.python'));
    if ('problem' in python) {
      this.failed(python.problem, again);
      return undefined;
    }
    const started = Date.now();
    const engineWheels = this.settings.text('engineWheels');
    let words = '';
    const show = (): void => {
      const minutes = Math.floor((Date.now() - started) / 60_000);
      report({ state: 'installing', message: minutes ? `${words} (${minutes} min so far)` : words });
    };
    const clock = setInterval(show, 15_000);
    try {
      const problem = await this.environment.make(
        { python: python.path, wheel, engineWheels, hasCompiler: hasCompiler() },
        (step) => {
          words = step;
          show();
        },
        (line) => this.log.info(line),
        stop,
      );
      if (problem !== undefined) {
        this.failed(problem, again);
        return undefined;
      }
    } finally {
      clearInterval(clock);
    }
    return this.environment.program();
  }

  /** One at a time, with a notification that shows how far it is and can end it. */
  private async alone<T>(
    title: string,
    work: (report: (status: Status) => void, stop: AbortSignal) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    if (this.isBusy) {
      await this.tell.say('midfill: something is being installed already; it is shown in the notifications');
      return undefined;
    }
    this.isBusy = true;
    const options = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
    try {
      return await vscode.window.withProgress(options, async (progress, token) => {
        const stop = new AbortController();
        token.onCancellationRequested(() => stop.abort());
        let shown = 0;
        return work((status) => {
          this.status.working(status);
          const percent = status.percent ?? shown;
          progress.report({ message: status.message ?? '', increment: percent - shown });
          shown = percent;
        }, stop.signal);
      });
    } finally {
      this.isBusy = false;
      this.status.working(undefined);
    }
  }

  private failed(sentence: string, again: () => unknown): void {
    this.status.heard({ state: 'absent', message: sentence });
    void this.tell.say(`midfill: ${sentence}`, 'error', [
      { title: 'Try Again', run: again },
      { title: 'Show Log', run: () => this.log.show() },
    ]);
  }

  private needsCompiler(): string {
    return `${NEEDS_COMPILER} Or name a directory or an index with a built wheel of llama-cpp-python in midfill.engineWheels.`;
  }

  private openWheels(): Button {
    return {
      title: 'Open Settings',
      run: () => vscode.commands.executeCommand('workbench.action.openSettings', 'midfill.engineWheels'),
    };
  }
}
