// What all panels share: to ask, to show, to follow a topic, and to say what is the matter.

import { Calls, Offline, Refused } from "./calls.js";
import { demoButton } from "./demo.js";
import { isLocal } from "./config.js";
import { showLedger } from "./ledger.js";
import { follow } from "./live.js";
import { html, live, nothing, render } from "./vendor/lit.js";

const LONGEST_PAUSE = 15_000; // ms
const MOMENT = 1000; // ms

export const states = new EventTarget(); // tells of every change of a panel's status
export const panels = [];

export class Panel {
  status = "loading"; // ready, missing, offline or error
  problem = ""; // why nothing new is shown
  said = ""; // what came of the last thing that was done here
  #load; #template; #root; #isBusy = false; #isAsked = false; #failures = 0; #timer = 0; #soon = 0; #stop = () => {};

  /** `load` asks for all that `template` shows; `about` names the code, for the ledger. */
  constructor(name, { load, template, about }) {
    this.calls = new Calls();
    this.#load = load;
    this.#template = template;
    const section = document.getElementById(name);
    this.#root = section.querySelector(".body");
    showLedger(this.calls, section.querySelector(".ledger"), about);
    panels.push(this);
  }

  draw() {
    this.#root.toggleAttribute("data-stale", this.status === "offline" || this.status === "error");
    render(html`
      ${this.problem ? html`<p class="notice" role="alert">${this.problem}</p>` : nothing}
      ${this.status === "loading" ? html`<p class="quiet" aria-busy="true">Loading …</p>` : this.#template()}
      <p class="said" aria-live="polite">${this.said}</p>`, this.#root);
  }

  /** Ask for everything again: once at a time, and once more if that was wished meanwhile. */
  async refresh() {
    this.#isAsked = true;
    if (this.#isBusy) return;
    this.#isBusy = true;
    while (this.#isAsked) {
      this.#isAsked = false;
      await this.#once();
    }
    this.#isBusy = false;
  }

  /** Ask again in a moment, once for all that changes until then: on a busy site each push would cost reads. */
  refreshSoon() {
    if (this.#soon) return;
    this.#soon = setTimeout(() => {
      this.#soon = 0;
      this.refresh();
    }, MOMENT);
  }

  /** Begin anew, with something else to show. */
  restart(topic, changed) {
    this.#stop();
    Object.assign(this, { status: "loading", problem: "", said: "" });
    this.draw();
    this.refresh();
    this.#stop = follow(topic, (value) => (value === undefined ? this.refresh() : changed(value)));
  }

  /** Do what a visitor wants, and say what came of it; answers whether it was done. */
  async act(work) {
    this.said = "";
    let isDone = true;
    try {
      this.said = (await work()) ?? "";
    } catch (error) {
      isDone = false;
      this.said = error.message;
      if (!(error instanceof Refused || error instanceof Offline)) console.error(error);
    }
    this.draw();
    return isDone;
  }

  async #once() {
    clearTimeout(this.#timer);
    try {
      await this.#load();
      this.#become("ready", "");
      this.#failures = 0;
    } catch (error) {
      this.#fail(error);
    }
    this.draw();
  }

  #fail(error) {
    if (error instanceof Refused && error.status === 404) {
      this.#become("missing", "");
    } else if (error instanceof Offline) {
      const hint = isLocal ? " Is make run still running?" : "";
      this.#become("offline", `Hubbub does not answer.${hint} This panel tries again by itself.`);
    } else {
      this.#become("error", error.message);
      if (!(error instanceof Refused)) console.error(error);
    }
    if (error instanceof Offline || error.passes) {
      this.#timer = setTimeout(() => this.refresh(), Math.min(1000 * 2 ** this.#failures, LONGEST_PAUSE));
      this.#failures += 1;
    }
  }

  #become(status, problem) {
    Object.assign(this, { status, problem });
    states.dispatchEvent(new Event("change"));
  }
}

/** The field that says what a panel shows. */
export function chooser(label, value, show) {
  return html`<form class="choose" @submit=${(event) => show(fields(event).name)}>
    <label><span>${label}</span> <input name="name" .value=${live(value)} autocomplete="off" autocapitalize="none"
      spellcheck="false" required></label>
    <button>Show</button></form>`;
}

/** Say that there is nothing yet, and how to get something. */
export function nothingYet(text, how) {
  return html`<div class="empty"><p><strong>${text}</strong> ${how}</p>${demoButton()}</div>`;
}

/** Keep a value that came from a field, for the next visit of this browser. */
export function remember(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`hubbub.${name}`);
    localStorage.setItem(`hubbub.${name}`, value);
  } catch { /* where storage is forbidden, nothing is kept */ }
  return null;
}

/** Answer a form's fields by name, and keep the browser from sending it. */
export function fields(event) {
  event.preventDefault();
  return Object.fromEntries(new FormData(event.target));
}
