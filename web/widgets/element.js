// What the widgets share: their beginning and end, loading, words, signing in, and error messages.

import { Hubbub, HubbubError, readClaims } from "../lib/core.js";
import { callDocument, formatsFor, make, write } from "../lib/dom.js";

const TIMEOUT = 10_000; // ms of a call
const MIN_INTERVAL = 2000; // ms between two loads, however many updates are pushed
const LONGEST_PAUSE = 60_000; // ms between two tries
const CACHED = 6_000; // ms: a stage may return a list that is 5 seconds old
const NEAR = "300px"; // from the window: a widget loads when it comes so near

const listeners = new Map(); // by API and socket: the widgets of a page share a connection
const names = new Map(); // by API: what the visitor has typed as a name since the guest signed in
let signingIn = Promise.resolve(); // one after the other, so that two calls do not make two guests

/** Return the language that the page declares for an element, also from inside a shadow tree, or "". */
export function findLanguage(element) {
  for (let node = element; node; node = node.getRootNode().host) {
    const found = node.closest("[lang]");
    if (found) return languageTag(found.getAttribute("lang"));
  }
  return "";
}

/** Return the level of a heading in an element: one below the heading before it. */
function findLevel(element) {
  const headings = [...callDocument("querySelectorAll", "h1, h2, h3, h4, h5, h6")];
  const before = headings.filter((heading) => heading.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING).at(-1);
  return before ? Math.min(6, Number(before.localName[1]) + 1) : 2;
}

/** Return a language tag as browsers accept it, such as "en-US" for "en_us", or "". */
export function languageTag(text) {
  try {
    return Intl.getCanonicalLocales(text.trim().replaceAll("_", "-"))[0];
  } catch {
    return "";
  }
}

/**
 * A widget. It begins when it comes near to the window, and shows what `read` loads. `api` is the address of the API, by
 * default the one that served this file. `token` is a bearer token of the visitor, and `getToken` a function that
 * returns one or a promise of one. With the attribute `guest`, a visitor without a token is signed in as a guest by the
 * first call that needs one. `words` replaces single words, by the keys in words-en.
 *
 * A class has `words`, its own by language, `topic`, whose values are passed to `changed`, and `every`, the time in
 * ms between two loads while no socket is connected. `changed` also gets whether a value is the topic's first, which is
 * usually what was just loaded.
 */
export class Widget extends HTMLElement {
  static socket = ""; // without the attribute `socket`, no socket is opened
  #state = make("p", { part: "state", role: "status" });
  #hub; #isOn = false; #isNear = false; #turn = 0; #stop; #getToken = null; #given = null; #words; #text; #ready;
  #again = 0; #settled = 0; #failures = 0; #loadedAt = 0; #isLoading = false; #isRequested = false; #pushed = null;
  #sight = new IntersectionObserver((seen) => this.#see(seen), { rootMargin: NEAR });
  #onGuest = ({ detail }) => detail.api === this.api && this.isGuest && this.#identify(detail);
  #onName = ({ detail: { api, name } }) => api === this.api && this.#showName(name);

  constructor(style, ...sheets) {
    super();
    const sheet = new CSSStyleSheet(); // the page's style-src does not apply to it
    sheet.replaceSync(STYLE + style);
    this.root = make("div", { className: "root" });
    this.attachShadow({ mode: "open" }).append(this.root);
    this.shadowRoot.adoptedStyleSheets = [sheet, ...sheets];
  }

  connectedCallback() {
    // A property that was set before the element was defined hides the accessor of the class.
    for (const name of ["token", "getToken", "words"]) {
      if (!Object.hasOwn(this, name)) continue;
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    this.#isOn = true;
    callDocument("addEventListener", "hubbub-guest", this.#onGuest);
    callDocument("addEventListener", "hubbub-name", this.#onName);
    this.root.style.setProperty("--rows", this.rows ?? 0);
    if (this.isNamed) this.#see([{ isIntersecting: true }]); // the address of the page names what it shows
    else this.#sight.observe(this);
  }

  disconnectedCallback() {
    this.#isOn = this.#isNear = false;
    callDocument("removeEventListener", "hubbub-guest", this.#onGuest);
    callDocument("removeEventListener", "hubbub-name", this.#onName);
    this.#sight.disconnect();
    this.#end();
  }

  attributeChangedCallback(name, before, after) {
    if (before !== after) this.refresh();
  }

  #see(seen) {
    if (!seen.some((entry) => entry.isIntersecting)) return;
    this.#sight.disconnect();
    this.#isNear = true;
    this.refresh();
  }

  /** Begin again. */
  refresh() {
    if (!this.#isOn || !this.#isNear) return;
    this.#end();
    this.#begin();
  }

  #begin() {
    const turn = this.#turn, { topic, every, words } = this.constructor;
    this.clear?.();
    this.setState("loading");
    this.#ready = this.#speak(words).catch(() => {
      if (turn !== this.#turn) return;
      this.#end();
      this.setState("offline");
      this.#again = setTimeout(() => this.refresh(), LONGEST_PAUSE);
    });
    if (!topic) return;
    let polls = 0, values = 0;
    this.load();
    this.#stop = this.#listener.live(topic(this), (value) => {
      if (value) this.#push(value, !values++);
      else if (polls++ && !this.#failures) this.load(); // the first poll comes at once
    }, { every, poll: async () => {}, onError() {} });
  }

  /** Load the words of the language around the element, and begin with them. */
  async #speak(languages) {
    const turn = this.#turn, tag = findLanguage(this), language = tag.split("-")[0], isKnown = Object.hasOwn(languages, language);
    const { shared, words } = await languages[isKnown ? language : "en"]();
    if (turn !== this.#turn) return;
    const given = this.#given, isOwn = isKnown || Boolean(given);
    this.#words = { ...shared, ...given, errors: { ...shared.errors, ...words.errors, ...given?.errors } };
    this.#text = { ...words, ...given };
    this.locale = (isOwn && tag) || "en";
    this.formats = formatsFor(this.locale);
    this.root.lang = this.locale;
    this.root.dir = isOwn ? "" : "ltr"; // words in another language than the page's have their own direction
    this.root.querySelector("[part=title]").ariaLevel = String(findLevel(this));
    if (this.constructor.topic) this.setState("loading", this.words.loading);
    this.begin();
  }

  #end() {
    this.#turn += 1;
    this.#stop?.();
    clearTimeout(this.#again);
    clearTimeout(this.#settled);
    [this.#isLoading, this.#isRequested, this.#pushed, this.#stop] = [false, false, null, null];
    this.end?.();
  }

  // -- loading -----------------------------------------------------------------------------------------

  /**
   * Load what is shown: `read` loads it and returns a function that shows it. Calls during a load cause one further load
   * after it.
   */
  async load() {
    if (this.#isLoading) {
      this.#isRequested = true;
      return;
    }
    const turn = this.#turn;
    clearTimeout(this.#again);
    [this.#isLoading, this.#isRequested, this.#loadedAt] = [true, false, Date.now()];
    const [{ value: show, reason }] = await Promise.allSettled([this.read(), this.#ready]);
    if (turn !== this.#turn) return;
    try {
      if (reason) throw reason;
      this.#failures = 0;
      show();
    } catch (error) {
      if (error.status === 404) this.clear?.();
      this.showError(error);
      this.#failures += 1;
      this.#again = setTimeout(() => this.load(), Math.min(1000 * 2 ** this.#failures, LONGEST_PAUSE));
    }
    const pushed = this.#pushed;
    [this.#isLoading, this.#pushed] = [false, null];
    if (this.#isRequested) this.load();
    else if (pushed) this.changed(...pushed);
  }

  /** Pass on a value of the topic. One that comes during a load waits for its end. */
  #push(...given) {
    if (this.#isLoading) this.#pushed = given;
    else this.changed(...given);
  }

  /** Load once for several pushes: a busy leaderboard has two each second. Load again when no list is older than they. */
  loadSoon() {
    clearTimeout(this.#again);
    clearTimeout(this.#settled);
    this.#settled = setTimeout(() => this.load(), CACHED);
    this.#again = setTimeout(() => this.load(), Math.max(0, this.#loadedAt + MIN_INTERVAL - Date.now()));
  }

  // -- words and errors --------------------------------------------------------------------------------

  get words() { return this.#words; }
  set words(given) {
    this.#given = given;
    this.refresh();
  }

  /** The words of this widget. */
  get text() { return this.#text; }

  /** The line that shows the state. It takes no space while it is empty. */
  get stateLine() { return this.#state; }

  setState(kind, text = "") {
    this.dataset.state = kind;
    write(this.#state, text);
  }

  showError(error) {
    if (isOffline(error)) this.setState("offline", this.words.offline);
    else this.setState("error", (error.status === 404 && this.missing) || this.explain(error));
  }

  /** Return the text of an error for the reader. Its details are for the console. */
  explain(error) {
    const { errors, failed } = this.words;
    if (isOffline(error)) return errors.Offline;
    if (error instanceof HubbubError) console.warn(`<${this.localName}>: ${error.message}`);
    else console.error(error);
    return errors[error.code] ?? failed;
  }

  emit(kind, detail) { this.dispatchEvent(new CustomEvent(`hubbub-${kind}`, { detail, bubbles: true, composed: true })); }

  // -- calls and signing in ----------------------------------------------------------------------------

  get api() { return new URL((this.getAttribute("api") ?? new URL("../..", import.meta.url).href).replace(/\/*$/, "/"), location.href).href; }
  get token() { return this.getAttribute("token") ?? ""; }
  set token(value) { value ? this.setAttribute("token", value) : this.removeAttribute("token"); }

  get getToken() { return this.#getToken; }
  set getToken(value) {
    if (value === this.#getToken) return;
    this.#getToken = value;
    this.refresh();
  }

  /** The address of the socket, undefined for the one that the stage names, or "" for none. */
  get socket() {
    const given = this.getAttribute("socket");
    return given === null ? this.constructor.socket : given || undefined;
  }

  /** The client of the API. */
  get hub() {
    const { api, socket } = this;
    if (this.#hub?.api !== api || this.#hub.socket !== socket) this.#hub = { api, socket, client: new Hubbub(api, { socket }) };
    return this.#hub.client;
  }

  get #listener() {
    const { api, socket } = this, key = `${api} ${socket}`;
    if (!listeners.has(key)) listeners.set(key, new Hubbub(api, { socket }));
    return listeners.get(key);
  }

  /** Send a call, such as "GET leaderboards/{board}", and return its body, with the `status` and `etag` of the response. Throws HubbubError. */
  async call(call, args, { signed = false, ...options } = {}) {
    try {
      if (signed) await this.#signIn(call.startsWith("GET"));
      const { status, body, etag } = await this.hub.request(call, args, { signal: AbortSignal.timeout(TIMEOUT), auth: signed, ...options });
      return body && Object.defineProperties(body, { status: { value: status }, etag: { value: etag } });
    } catch (error) {
      if (signed && error.status === 401) this.emit("unauthorized", { message: error.message });
      throw error;
    }
  }

  /** Whether the visitor is a guest, or would be one. */
  get isGuest() { return !this.getToken && !this.token && this.hasAttribute("guest"); }

  /** Return the visitor's token, or "". */
  async identity() {
    if (this.getToken) return (await this.getToken()) ?? "";
    return this.isGuest ? (this.hub.guest?.token ?? "") : this.token;
  }

  /** Return the visitor's `sub` from the token, or "". */
  async visitor() { return readClaims(await this.identity()).sub ?? ""; }

  /** Use the visitor's token. A guest who writes something has the name in the field from then on. */
  async #signIn(isRead) {
    if (!this.isGuest) {
      this.hub.token = await this.identity();
      return;
    }
    signingIn = signingIn.catch(() => {}).then(() => this.hub.signInAsGuest(isRead ? undefined : names.get(this.api)));
    await signingIn;
  }

  /** Create the field for the name of a guest. All widgets of a page show the same name. */
  nameField() {
    const field = make("input", { name: "guest", maxLength: 60, autocomplete: "nickname", value: names.get(this.api) ?? this.hub.guest?.name ?? "" });
    field.addEventListener("input", () => {
      names.set(this.api, field.value);
      callDocument("dispatchEvent", new CustomEvent("hubbub-name", { detail: { api: this.api, name: field.value } }));
    });
    return make("label", { part: "name", className: "grow" }, this.words.name, field);
  }

  #showName(name) {
    for (const field of this.shadowRoot.querySelectorAll("[name=guest]")) if (field.value !== name) field.value = name;
  }

  /** Follow a guest that any client on the page has signed in or renamed. */
  #identify({ name }) {
    names.delete(this.api);
    this.#showName(name ?? "");
    if (this.#isNear) this.identified();
  }

  /** Called when a guest was signed in or renamed. */
  identified() { this.load(); }
}

/** Return a key that is the same for each retry of a write. */
export const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

const isOffline = (error) => error.code === "Offline" || error.name === "TimeoutError";

/** Create a column of a table. */
export const column = (name, className = "") => make("th", { scope: "col", className }, name);

/** Create a row of a table: a rank, a player, of whom `me` is the visitor, and a number. */
export function row({ rank, player, name }, number, me, { words, formats }) {
  const isMine = player === me;
  const made = make("tr", { part: isMine ? "row mine" : "row", className: isMine ? "mine" : "" },
    make("td", { className: "number" }, formats.count(rank)),
    make("td", {}, make("span", { className: "name", title: name ?? player }, make("bdi", {}, name ?? player)), ...(isMine ? [make("span", { className: "quiet" }, ` (${words.you})`)] : [])),
    make("td", { className: "number" }, number));
  made.dataset.player = player;
  if (isMine) made.ariaCurrent = "true";
  return made;
}

// The style that the widgets share. A page can change the colours with the properties `--card`, `--ink` and so on, and
// style single parts with ::part().
const STYLE = `
:host {
  --h-card: var(--card, light-dark(#fff, #171d1a)); --h-ink: var(--ink, light-dark(#17201c, #e6edea));
  --h-quiet: var(--quiet, light-dark(#56635d, #9daba5)); --h-line: var(--line, light-dark(#dfe5e2, #29322e));
  --h-accent: var(--accent, light-dark(#08764f, #4fd8a4)); --h-accent-ink: var(--accent-ink, light-dark(#fff, #06251a));
  --h-tint: var(--tint, light-dark(#e6f3ed, #1a2f27)); --h-warn: var(--warn, light-dark(#7a4200, #ffcf8f));
  --h-warn-ground: var(--warn-ground, light-dark(#fff3e0, #33240f)); --h-flash: var(--flash, light-dark(#bdebd6, #1f5a44));
  --h-star: var(--star, light-dark(#b26a00, #f0b45a)); --h-edge: var(--edge, light-dark(#8a9891, #74827b));
  --h-bars: var(--views, light-dark(#8fcdb4, #24704f)); --h-darker: var(--visitors, light-dark(#2f8f6b, #63c79d));
  display: block; padding: 16px; border: 1px solid var(--h-line); border-radius: 12px;
  background: var(--h-card); color: var(--h-ink); font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere;
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }
.root { position: relative; display: grid; grid-template-columns: minmax(0, 1fr); gap: 10px; align-content: start; }
h3, p, ol, ul, dl, dd, fieldset { margin: 0; padding: 0; border: 0; list-style: none; }
h3 { min-height: 1.3em; font-size: 16px; line-height: 1.3; }
h3:empty { visibility: hidden; }
p:empty { display: none; }
.quiet { color: var(--h-quiet); font-size: 13px; font-weight: 400; }
.row { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; }
form.row { align-items: end; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
:focus-visible { outline: 2px solid var(--h-accent); outline-offset: 2px; }
button, input, textarea, select { font: inherit; color: inherit; background: var(--h-card); border: 1px solid var(--h-edge); border-radius: 8px; }
input { min-height: 34px; min-width: 0; padding: 4px 10px; }
label { color: var(--h-quiet); font-size: 13px; }
label.grow { display: grid; gap: 2px; }
label input, label textarea { color: var(--h-ink); font-size: 15px; }
.grow { flex: 1 1 12rem; }
button { min-height: 34px; padding: 4px 12px; cursor: pointer; }
button:hover { background: var(--h-tint); }
button.primary { border-color: var(--h-accent); background: var(--h-accent); color: var(--h-accent-ink); font-weight: 600; }
button.link { min-height: 24px; padding: 0 4px; border: 0; background: none; text-decoration: underline; font-size: 13px; }
button:disabled, button[aria-disabled=true] { opacity: .55; cursor: default; }
table { width: 100%; border-collapse: collapse; }
caption { padding-bottom: 4px; font-weight: 600; text-align: start; }
th { padding: 4px 8px; color: var(--h-quiet); font-size: 13px; font-weight: 400; text-align: start; }
td { padding: 5px 8px; border-top: 1px solid var(--h-line); }
th.number, td.number { width: 1%; text-align: end; font-variant-numeric: tabular-nums; white-space: nowrap; }
.name { display: -webkit-inline-box; max-width: 100%; overflow: hidden; vertical-align: bottom; -webkit-box-orient: vertical; -webkit-line-clamp: 3; }
td .quiet { white-space: nowrap; }
@media (max-width: 400px) { th, td { padding-inline: 4px; } }
tr.mine { background: var(--h-tint); font-weight: 600; }
[part=state] { color: var(--h-quiet); }
:host([data-state=loading]) [part=state] { position: absolute; inset: 40% 0 auto; text-align: center; }
:host([data-state=error]) .root { min-height: 0 !important; }
:host([data-state=error]) h3:empty { display: none; }
:host([data-state=error]) [part=state], :host([data-state=offline]) [part=state], .problem { padding: 8px 12px; border-radius: 8px; background: var(--h-warn-ground); color: var(--h-warn); }
@media (prefers-reduced-motion: no-preference) { .changed { animation: changed 1.2s ease-out; } }
@keyframes changed { from { background: var(--h-flash); } }
`;
