// What all panels share: the frame of a section, loading, rendering, subscribing to a topic, and reporting errors.

import { CallLog, createClient, explain, isOffline, isTransient } from "../lib/client.js";
import { isLocal } from "../lib/config.js";
import { follow } from "../lib/live.js";
import { words } from "../lib/words.js";
import { callLog } from "./call-log.js";
import { snippet } from "./snippet.js";
import { html, nothing, render } from "../vendor/lit.js";

const LONGEST_PAUSE = 15_000; // ms
const REFRESH_DELAY = 1000; // ms

export const states = new EventTarget(); // dispatches "change" whenever the status of a panel changes
export const panels = [];

/**
 * Draw the frame of a section: its title, its body, and beside it the lines that put the feature on a page and the
 * tools. `lines` returns those lines. `tools` renders what chooses the data shown. `about` names the code. Returns
 * the element of the body and a function that draws the side again.
 */
export function frame(name, { calls, lines, tools = () => nothing, about }) {
  const section = document.getElementById(name);
  const remembered = `tools.${name}`;
  render(html`
    <div class="content">
      <header><h2 id="${name}-title">${words[name].title}</h2><p>${words[name].sentence}</p></header>
      <div class="body"></div>
    </div>
    <aside class="beside" aria-label=${words.panel.beside(words[name].title)}></aside>`, section);
  const side = section.querySelector(".beside");
  const drawSide = () => render(html`
    ${snippet(lines())}
    <details class="tools" ?open=${remember(remembered) === "open"}
      @toggle=${(event) => remember(remembered, event.target.open ? "open" : "closed")}>
      <summary>${words.panel.tools}</summary>
      ${tools()}
      ${callLog(calls, about)}
    </details>`, side);
  let isDue = false;
  calls.addEventListener("call", () => {
    if (!isDue) requestAnimationFrame(() => { // one drawing for many calls
      isDue = false;
      drawSide();
    });
    isDue = true;
  });
  drawSide();
  return [section.querySelector(".body"), drawSide];
}

export class Panel {
  status = "loading"; // ready, missing, offline or error
  problem = ""; // why the data shown may be old
  message = ""; // the result of the visitor's last action
  #load; #template; #root; #drawSide; #isBusy = false; #isRequested = false; #failures = 0; #timer = 0; #soon = 0;
  #stop = () => {};

  /** `load` requests everything that `template` shows. The rest is passed to `frame`. */
  constructor(name, { load, template, ...side }) {
    const calls = new CallLog();
    this.api = createClient(calls);
    this.#load = load;
    this.#template = template;
    [this.#root, this.#drawSide] = frame(name, { calls, ...side });
    panels.push(this);
  }

  draw() {
    this.#drawSide();
    this.#root.toggleAttribute("data-stale", this.status === "offline" || this.status === "error");
    render(html`
      ${this.problem ? html`<p class="notice" role="alert">${this.problem}</p>` : nothing}
      ${this.status === "loading" ? skeleton() : this.#template()}
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
      this.message = explain(error);
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
    if (error.status === 404) {
      this.#setStatus("missing", "");
    } else if (isOffline(error)) {
      this.#setStatus("offline", isLocal ? words.panel.offlineLocal : words.panel.offline);
    } else {
      this.#setStatus("error", explain(error));
    }
    if (isTransient(error)) {
      this.#timer = setTimeout(() => this.refresh(), Math.min(1000 * 2 ** this.#failures, LONGEST_PAUSE));
      this.#failures += 1;
    }
  }

  #setStatus(status, problem) {
    Object.assign(this, { status, problem });
    states.dispatchEvent(new Event("change"));
  }
}

/** Render the shape of what is being loaded. */
export function skeleton() {
  return html`<div class="skeleton" aria-busy="true"><span class="hidden">${words.state.loading}</span>
    <i></i><i></i><i></i><i></i></div>`;
}

/** Render the form that chooses what a panel shows. */
export function chooser(label, value, show) {
  return html`<form class="choose row" @submit=${(event) => show(fields(event).name)}>
    <label class="grow">${label} <input name="name" .value=${value} autocomplete="off" autocapitalize="none"
      spellcheck="false" required></label>
    <button>${words.panel.show}</button></form>`;
}

/** Render the state without data, and how to get some. */
export function emptyState(text, how) {
  return html`<div class="empty"><p><strong>${text}</strong> ${how}</p></div>`;
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
