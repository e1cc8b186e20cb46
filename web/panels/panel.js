// What all panels share: loading, rendering, subscribing to a topic, and reporting errors.

import { ApiClient, Offline, ApiError } from "../lib/api.js";
import { demoButton } from "../lib/demo.js";
import { isLocal } from "../lib/config.js";
import { showCallLog } from "./call-log.js";
import { follow } from "../lib/live.js";
import { html, live, nothing, render } from "../vendor/lit.js";
import { NOT_RESPONDING } from "../lib/words.js";

const LONGEST_PAUSE = 15_000; // ms
const REFRESH_DELAY = 1000; // ms

export const states = new EventTarget(); // dispatches "change" whenever the status of a panel changes
export const panels = [];

export class Panel {
  status = "loading"; // ready, missing, offline or error
  problem = ""; // why the data shown may be old
  message = ""; // the result of the visitor's last action
  #load; #template; #root; #isBusy = false; #isRequested = false; #failures = 0; #timer = 0; #soon = 0; #stop = () => {};

  /** `load` requests everything that `template` shows. `about` names the code, for the call log. */
  constructor(name, { load, template, about }) {
    this.api = new ApiClient();
    this.#load = load;
    this.#template = template;
    const section = document.getElementById(name);
    this.#root = section.querySelector(".body");
    showCallLog(this.api, section.querySelector(".ledger"), about);
    panels.push(this);
  }

  draw() {
    this.#root.toggleAttribute("data-stale", this.status === "offline" || this.status === "error");
    render(html`
      ${this.problem ? html`<p class="notice" role="alert">${this.problem}</p>` : nothing}
      ${this.status === "loading" ? html`<p class="quiet" aria-busy="true">Loading …</p>` : this.#template()}
      <p class="said" aria-live="polite">${this.message}</p>`, this.#root);
  }

  /** Load everything again. Calls during a load cause one further load after it. */
  async refresh() {
    this.#isRequested = true;
    if (this.#isBusy) return;
    this.#isBusy = true;
    while (this.#isRequested) {
      this.#isRequested = false;
      await this.#loadOnce();
    }
    this.#isBusy = false;
  }

  /** Load again after a short delay, once for all changes until then. Otherwise each push on a busy site would cost reads. */
  refreshSoon() {
    if (this.#soon) return;
    this.#soon = setTimeout(() => {
      this.#soon = 0;
      this.refresh();
    }, REFRESH_DELAY);
  }

  /** Show something else: load it, and subscribe to its topic. */
  restart(topic, changed) {
    this.#stop();
    Object.assign(this, { status: "loading", problem: "", message: "" });
    this.draw();
    this.refresh();
    this.#stop = follow(topic, (value) => (value === undefined ? this.refresh() : changed(value)));
  }

  /** Run an action of the visitor and show its message or its error. Return whether it succeeded. */
  async act(work) {
    this.message = "";
    let isSuccess = true;
    try {
      this.message = (await work()) ?? "";
    } catch (error) {
      isSuccess = false;
      this.message = error.message;
      if (!(error instanceof ApiError || error instanceof Offline)) console.error(error);
    }
    this.draw();
    return isSuccess;
  }

  async #loadOnce() {
    clearTimeout(this.#timer);
    try {
      await this.#load();
      this.#setStatus("ready", "");
      this.#failures = 0;
    } catch (error) {
      this.#fail(error);
    }
    this.draw();
  }

  #fail(error) {
    if (error instanceof ApiError && error.status === 404) {
      this.#setStatus("missing", "");
    } else if (error instanceof Offline) {
      const hint = isLocal ? " Is make run still running?" : "";
      this.#setStatus("offline", `${NOT_RESPONDING}${hint} This panel retries automatically.`);
    } else {
      this.#setStatus("error", error.message);
      if (!(error instanceof ApiError)) console.error(error);
    }
    if (error instanceof Offline || error.isTransient) {
      this.#timer = setTimeout(() => this.refresh(), Math.min(1000 * 2 ** this.#failures, LONGEST_PAUSE));
      this.#failures += 1;
    }
  }

  #setStatus(status, problem) {
    Object.assign(this, { status, problem });
    states.dispatchEvent(new Event("change"));
  }
}

/** Render the form that chooses what a panel shows. */
export function chooser(label, value, show) {
  return html`<form class="choose" @submit=${(event) => show(fields(event).name)}>
    <label><span>${label}</span> <input name="name" .value=${live(value)} autocomplete="off" autocapitalize="none"
      spellcheck="false" required></label>
    <button>Show</button></form>`;
}

/** Render the state without data, and how to get some. */
export function emptyState(text, how) {
  return html`<div class="empty"><p><strong>${text}</strong> ${how}</p>${demoButton()}</div>`;
}

/** Store a field's value for the next visit in this browser, or return the stored one. */
export function remember(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`hubbub.${name}`);
    localStorage.setItem(`hubbub.${name}`, value);
  } catch { /* the browser forbids storage */ }
  return null;
}

/** Return a form's fields by name, and prevent the browser from submitting it. */
export function fields(event) {
  event.preventDefault();
  return Object.fromEntries(new FormData(event.target));
}
