// Requests, guests and live values of the client (hubbub.js).

import { Listener } from "./socket.js";

const HOUR = 3_600_000; // ms
const TOPICS = 10; // of a connection
const guests = new Map(); // by API, where there is no storage

export class HubbubError extends Error {
  name = "HubbubError";

  constructor(code, message = code, { status = 0, retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { code, status, retryAfter });
  }
}

export class Hubbub {
  static Chat; // chat.js sets it
  static calls = {}; // calls.js sets them
  #api; #options; #token = ""; #socket; #listeners = [];

  constructor(api, options = {}) {
    this.#api = new URL(String(api).replace(/\/*$/, "/"), globalThis.location?.href).href;
    this.#options = options;
    this.#socket = options.socket;
  }

  /** Send a call, given by its name or as "GET leaderboards/{board}". Widgets do the latter, and do not load calls.js. */
  async request(name, args = {}, { idempotencyKey, ifMatch, signal, auth } = {}) {
    const [method, template, ...queried] = (Hubbub.calls[name] ?? name).split(/[ ?&]/);
    const rest = { ...args };
    const path = template.replace(/{(\w+)}/g, (_, part) => {
      const value = rest[part];
      delete rest[part];
      // A URL parser removes a dot segment with the part before it.
      if (/^(\.|%2e){0,2}$/i.test(value ?? "")) throw new HubbubError("BadRequest", `${part} must not be empty, . or ..`);
      return encodeURIComponent(value);
    });
    const verb = method.replace("!", ""), url = new URL(this.#api + path), headers = {};
    const hasBody = /^P/.test(verb);
    if (hasBody) headers["Content-Type"] = "application/json";
    for (const key of hasBody ? queried : Object.keys(rest)) {
      if (rest[key] != null) url.searchParams.set(key, rest[key]);
      delete rest[key];
    }
    if (idempotencyKey) headers["Idempotency-Key"] = idempotencyKey;
    if (ifMatch) headers["If-Match"] = ifMatch;
    const needsToken = auth ?? method.endsWith("!");
    const send = async (isRefused) => {
      const token = needsToken && (await this.#findToken(isRefused));
      if (token) headers.Authorization = `Bearer ${token}`;
      const began = performance.now();
      let response, body = null;
      try {
        response = await (this.#options.fetch ?? fetch)(url, { method: verb, headers, signal, body: hasBody ? JSON.stringify(rest) : undefined });
        body = await response.text();
      } catch (error) {
        if (signal?.aborted) throw error;
      }
      const status = response && body !== null ? response.status : 0;
      this.#options.onCall?.({ name, method: verb, path: `/${path}`, status, headers: response?.headers, ms: performance.now() - began });
      if (!status) throw new HubbubError("Offline", "The server did not respond.");
      if (status === 401 && token && !isRefused && this.#canRefresh()) return send(true);
      try {
        body = body ? JSON.parse(body) : null;
      } catch {
        body = { code: "BadResponse", message: `The server responded with status ${status}.` };
      }
      if (response.ok && body?.code !== "BadResponse") return { status, headers: response.headers, etag: response.headers.get("ETag"), body };
      const retryAfter = Number(response.headers.get("Retry-After")) || 0;
      throw new HubbubError(body?.code ?? "BadResponse", body?.message, { status, retryAfter });
    };
    return send(false);
  }

  set token(token) {
    this.#options = { ...this.#options, token };
    this.#token = "";
  }

  get guest() {
    let guest = guests.get(this.#api);
    try {
      guest = JSON.parse(localStorage.getItem(`hubbub.guest ${this.#api}`)) ?? guest;
    } catch { /* there is no storage, or something else in it */ }
    return Date.parse(guest?.expires) > Date.now() + HOUR ? guest : null;
  }

  async signInAsGuest(name, { fresh = false } = {}) {
    let guest = fresh ? null : this.guest;
    const asked = name?.trim();
    // The server may keep another spelling of the name.
    if (!guest || (name != null && guest.asked !== asked && (guest.name ?? "") !== asked)) {
      this.token = guest?.token;
      guest = { ...(await this.request("POST guests", { name: asked }, { auth: true })).body, asked, api: this.#api };
      guests.set(this.#api, guest);
      try {
        localStorage.setItem(`hubbub.guest ${this.#api}`, JSON.stringify(guest));
      } catch { /* the guest lasts until the page is closed */ }
      globalThis.document && EventTarget.prototype.dispatchEvent.call(document, new CustomEvent("hubbub-guest", { detail: guest }));
    }
    // A stage whose secret has changed refuses the tokens of its guests.
    this.token = async (isRefused) => (isRefused ? await this.signInAsGuest(guest.asked, { fresh: true }) : guest).token;
    return guest;
  }

  live(topic, onValue, { onError, onState, poll, every = 5000 } = {}) {
    let listener = null, isOpen = false, isStopped = false;
    const refuse = (error) => (onError ? onError(error) : console.error(error));
    const load = () => isOpen || globalThis.document?.visibilityState === "hidden" || poll().then((value) => isStopped || isOpen || onValue(value), () => {});
    const timer = poll && setInterval(load, every);
    const listen = async () => {
      const address = await this.#findSocket();
      if (isStopped) return;
      listener = this.#listeners.find((known) => known.topics.size < TOPICS && !known.topics.has(topic));
      if (!listener) this.#listeners.push((listener = new Listener(address, this.#options)));
      listener.add(topic, {
        onValue,
        onError: refuse,
        onState(now) {
          isOpen = now;
          onState?.(now);
        },
      });
    };
    listen().catch(refuse);
    if (poll) load();
    return () => {
      isStopped = true;
      clearInterval(timer);
      if (listener?.remove(topic)) this.#listeners = this.#listeners.filter((kept) => kept !== listener);
      listener = null;
    };
  }

  chat(lobby = "main", { interests = [], resume = "" } = {}) {
    const query = { lobby, receipts: 1, ...(interests.length && { interests: interests.join(",") }) };
    const findToken = () => this.#findToken(false).catch(() => "");
    return new Hubbub.Chat(this.#findSocket(), query, { ...this.#options, findToken }, resume);
  }

  async #findSocket() {
    this.#socket ??= (await this.request("GET web/config.json")).body.socket || undefined;
    if (!this.#socket) throw new HubbubError("NotFound", "This stage has no sockets.");
    return this.#socket;
  }

  #canRefresh() {
    return typeof this.#options.token === "function";
  }

  async #findToken(isRefused) {
    const { token } = this.#options;
    if (!this.#canRefresh()) return token;
    if (isRefused || !this.#token) this.#token = await token(isRefused);
    return this.#token;
  }
}
