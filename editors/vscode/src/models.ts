// Choosing a model: what is offered, and what follows from a choice. Refuses to fetch (`setup` does).

import * as vscode from 'vscode';

import { list, Listing, size } from './pull';
import { Tell } from './tell';

export interface Choice extends vscode.QuickPickItem {
  readonly id: string;
  readonly isOnDisk: boolean;
}

/** Largest last, as the command lists them; the automatic choice first. */
export function choices(listing: Listing): Choice[] {
  const auto: Choice = {
    label: 'auto',
    description: `now ${listing.automatic_choice.id}`,
    detail: 'the best known model for this machine, of those on disk',
    id: 'auto',
    isOnDisk: true,
  };
  const known = listing.models.map((model) => ({
    label: `${model.on_disk ? '$(check)' : '$(cloud-download)'} ${model.id}`,
    description: `${size(model.bytes)}${model.on_disk ? '' : ' to download'}${model.id === listing.setting ? ', in use' : ''}`,
    detail: [
      model.terms === 'open' ? model.licence : `${model.licence} (${model.terms}: read its licence first)`,
      model.is_chosen ? 'suits this machine best' : model.why_not,
    ]
      .filter(Boolean)
      .join('; '),
    id: model.id,
    isOnDisk: model.on_disk,
  }));
  const added = listing.added
    .filter((model) => model.in_place)
    .map((model) => ({ label: `$(file) ${model.id}`, detail: model.path, id: model.id, isOnDisk: true }));
  return [auto, ...known, ...added];
}

export async function chooseModel(program: string, tell: Tell): Promise<Choice | undefined> {
  const options = { location: vscode.ProgressLocation.Window, title: 'midfill looks for models' };
  const listing = await vscode.window.withProgress(options, () => list(program));
  if (typeof listing === 'string') {
    void tell.say(`midfill: ${listing}`, 'error');
    return undefined;
  }
  return vscode.window.showQuickPick(choices(listing), {
    title: `The model that completes (now: ${listing.setting})`,
    matchOnDescription: true,
    matchOnDetail: true,
  });
}
