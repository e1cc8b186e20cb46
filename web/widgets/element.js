// What the widgets share: signing in, calls to the API, and error messages.

import { readClaims } from "../lib/claims.js";
import { make } from "../lib/dom.js";
import { Hubbub, HubbubError } from "../lib/hubbub.js";
import { wordsFor } from "./words.js";

const TIMEOUT = 10_000; // ms

/** Create the field for the name of a guest. */
export function nameField(words) {
  return make("label", { className: "grow" }, words.name, make("input", { name: "guest", maxLength: 60, autocomplete: "nickname" }));
}

/**
 * A widget. `api` is the address of the API, by default the one that served this file. `token` is a bearer token of
 * the visitor, and `getToken` a function that returns one or a promise of one. With the attribute `guest`, a visitor
 * without a token is signed in as a guest by the first call that needs one.
 */
export class Widget extends HTMLElement {
  static socket = ""; // without the attribute `socket`, no socket is opened
  guestName = ""; // the name of a guest who is not signed in yet
  #state; #hub; #on = false; #getToken = null;
  #onGuest = ({ target }) => target !== this && this.isGuest && this.#restart();

  constructor(style) {
    super();
    const sheet = new CSSStyleSheet(); // the page's style-src does not apply to it
    sheet.replaceSync(STYLE + style);
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
    this.#state = make("p", { part: "state", role: "status" });
  }

  connectedCallback() {
    // A property that was set before the element was defined hides the accessor of the class.
    for (const name of ["token", "getToken"]) {
      if (!Object.hasOwn(this, name)) continue;
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    this.#on = true;
    // Another widget has signed the guest in. An element of the page may hide document.addEventListener.
    EventTarget.prototype.addEventListener.call(document, "hubbub-guest", this.#onGuest);
    this.begin();
  }

  disconnectedCallback() {
    this.#on = false;
    EventTarget.prototype.removeEventListener.call(document, "hubbub-guest", this.#onGuest);
    this.end();
  }

  attributeChangedCallback(name, before, after) {
    if (before !== after) this.#restart();
  }

  #restart() {
    if (!this.#on) return; // the initial attributes arrive before it is connected
    this.end();
    this.begin();
  }

  get api() { return (this.getAttribute("api") ?? new URL("../..", import.meta.url).href).replace(/\/*$/, "/"); }
  get token() { return this.getAttribute("token") ?? ""; }
  set token(value) { value ? this.setAttribute("token", value) : this.removeAttribute("token"); }

  get getToken() { return this.#getToken; }
  set getToken(value) {
    if (value === this.#getToken) return;
    this.#getToken = value;
    this.#restart();
  }

  /** The words in the language of the page. */
  get words() { return wordsFor(this); }

  /** The language of the page for numbers and dates. */
  get pageLanguage() { return this.closest("[lang]")?.lang || undefined; }

  /** The line that shows the state. It takes no space while it is empty. */
  get stateLine() { return this.#state; }

  setState(kind, text = "") {
    this.dataset.state = kind;
    if (this.#state.textContent !== text) this.#state.textContent = text;
  }

  /** Show an error. A bug in this code is also logged to the console. */
  showError(error) {
    if (error.code === "Offline" || error.name === "TimeoutError") this.setState("offline", this.words.offline);
    else if (error instanceof HubbubError) this.setState("error", error.message);
    else {
      this.setState("error", this.words.failed);
      console.error(error);
    }
  }

  emit(kind, detail) { this.dispatchEvent(new CustomEvent(`hubbub-${kind}`, { detail, bubbles: true, composed: true })); }

  /** The client of the API. */
  get hub() {
    const [api, socket] = [this.api, this.getAttribute("socket") ?? this.constructor.socket];
    if (this.#hub?.api !== api || this.#hub.socket !== socket) this.#hub = { api, socket, client: new Hubbub(api, { socket }) };
    return this.#hub.client;
  }

  /** Send a call and return its body, with the `status` and `etag` of the response. Throws HubbubError. */
  async call(name, args, { signed = false, ...options } = {}) {
    if (signed) await this.#signIn();
    const { status, body, etag } = await this.hub.request(name, args, { signal: AbortSignal.timeout(TIMEOUT), auth: signed, ...options });
    return body && Object.defineProperties(body, { status: { value: status }, etag: { value: etag } });
  }

  /** Whether the visitor is a guest, or would be one. */
  get isGuest() { return !this.getToken && !this.token && this.hasAttribute("guest"); }

  /** Return the visitor's token, or "". */
  async identity() {
    if (this.getToken) return this.getToken();
    return this.isGuest ? (this.hub.guest?.token ?? "") : this.token;
  }

  /** Return the visitor's `sub` from the token, or "". */
  async visitor() { return readClaims(await this.identity()).sub ?? ""; }

  async #signIn() {
    if (!this.isGuest) {
      this.hub.token = await this.identity();
      return;
    }
    const isNew = !this.hub.guest;
    const guest = await this.hub.signInAsGuest(isNew ? this.guestName : undefined);
    if (isNew) this.emit("guest", guest);
  }
}

// A page can change the colours with these properties, and style single parts with ::part().
const STYLE = `
:host {
  --h-card: var(--card, light-dark(#fff, #171d1a)); --h-ink: var(--ink, light-dark(#17201c, #e6edea));
  --h-quiet: var(--quiet, light-dark(#56635d, #9daba5)); --h-line: var(--line, light-dark(#dfe5e2, #29322e));
  --h-accent: var(--accent, light-dark(#08764f, #4fd8a4)); --h-accent-ink: var(--accent-ink, light-dark(#fff, #06251a));
  --h-tint: var(--tint, light-dark(#e6f3ed, #1a2f27)); --h-warn: var(--warn, light-dark(#7a4200, #ffcf8f));
  --h-warn-ground: var(--warn-ground, light-dark(#fff3e0, #33240f)); --h-flash: var(--flash, light-dark(#bdebd6, #1f5a44));
  --h-star: var(--star, light-dark(#b26a00, #f0b45a)); --h-edge: var(--edge, light-dark(#8a9891, #74827b));
  display: block; padding: 16px; border: 1px solid var(--h-line); border-radius: 12px;
  background: var(--h-card); color: var(--h-ink); font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere;
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }
h3, p, ol, ul, fieldset { margin: 0; padding: 0; border: 0; list-style: none; }
h3 { font-size: 16px; line-height: 1.3; }
.quiet { color: var(--h-quiet); font-size: 13px; }
.row { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
:focus-visible { outline: 2px solid var(--h-accent); outline-offset: 2px; }
button, input, textarea, select { font: inherit; color: inherit; background: var(--h-card); border: 1px solid var(--h-edge); border-radius: 8px; }
input { min-height: 34px; min-width: 0; padding: 4px 10px; }
.grow { flex: 1 1 12rem; }
button { min-height: 34px; padding: 4px 12px; cursor: pointer; }
button:hover { background: var(--h-tint); }
button.primary { border-color: var(--h-accent); background: var(--h-accent); color: var(--h-accent-ink); font-weight: 600; }
button.link { min-height: 24px; padding: 0 4px; border: 0; background: none; text-decoration: underline; font-size: 13px; }
button:disabled, button[aria-disabled=true] { opacity: .55; cursor: default; }
[part=state]:empty { display: none; }
[part=state] { padding: 8px 12px; border-radius: 8px; color: var(--h-quiet); }
:host([data-state=error]) [part=state], :host([data-state=offline]) [part=state] { background: var(--h-warn-ground); color: var(--h-warn); }
@media (prefers-reduced-motion: no-preference) { .changed { animation: changed 1.2s ease-out; } }
@keyframes changed { from { background: var(--h-flash); } }
`;
