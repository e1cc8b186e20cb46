// Requests, guests, sockets and live values of the client (hubbub.js).

const MINUTE = 60_000, HOUR = 60 * MINUTE; // ms
const TOPICS = 10; // of a connection
const guests = new Map(); // by API, where there is no storage

export class HubbubError extends Error {
  name = "HubbubError";

  constructor(code, message = code, { status = 0, retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { code, status, retryAfter });
  }
}

/** Return the claims of a JWT for display, or none when it is malformed. Only the API verifies them. */
export function readClaims(token) {
  try {
    const base64 = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))));
  } catch {
    return {};
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
  async request(name, args = {}, { idempotencyKey, ifMatch, accept, signal, auth } = {}) {
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
    if (accept) headers.Accept = accept;
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

// -- sockets: a connection that reconnects, and one that follows live values ----------------------------

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A socket that reconnects. It asks for `resume` tokens if it chats, and sends pings so that it stays open.
export class Connection extends EventTarget {
  #address; #query; #WebSocket; #findToken; #socket = null; #tries = 0; #timers = []; #waiting = new Map(); #ref = 0; #isClosed = false;

  constructor(address, query, options, resumeToken) {
    super();
    this.#query = query;
    this.resumeToken = resumeToken;
    this.#WebSocket = options.WebSocket ?? WebSocket;
    this.#findToken = options.findToken;
    Promise.resolve(address).then((found) => {
      this.#address = found;
      this.#open();
    }, (error) => this.#emit("failed", error));
  }

  get isOpen() { return this.#socket?.readyState === 1; }

  /** Send a frame. Resolve when it has taken effect. Rejects with HubbubError. */
  send(frame) {
    const ref = String(++this.#ref);
    return new Promise((resolve, reject) => {
      if (!this.post({ ...frame, ref })) return reject(new HubbubError("Offline", "The socket is not connected."));
      this.#waiting.set(ref, { resolve, reject });
    });
  }

  /** Send a frame that gets no answer. Return whether the socket is open. */
  post(frame) {
    if (!this.isOpen) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  suspend() {
    this.#isClosed = true;
    this.#end();
  }

  close() {
    this.#socket?.close(1000);
    this.suspend();
  }

  async #open() {
    const token = await this.#findToken?.();
    if (this.#isClosed) return;
    const url = new URL(this.#address), before = this.#socket;
    for (const [name, value] of Object.entries(this.#query)) url.searchParams.set(name, value);
    if (this.resumeToken) url.searchParams.set("resume", this.resumeToken);
    if (token) url.searchParams.set("token", token);
    const socket = new this.#WebSocket(url);
    const post = (action) => this.post({ action });
    socket.onopen = () => {
      if (this.#isClosed) return socket.close(1000);
      this.#end(); // the frames of the connection before, whose effect is unknown
      this.#socket = socket;
      this.#tries = 0;
      before?.close();
      if (!this.#query.listen) ["status", "resume"].forEach(post);
      this.#timers = [
        setTimeout(() => this.#open(), 1.9 * HOUR), // API Gateway closes a connection after two hours
        setInterval(post, 4 * MINUTE, "ping"), // … and after ten minutes without a frame
        this.#query.listen ? 0 : setInterval(() => this.state === "waiting" && post("ping"), 6000), // anyone will do now
      ];
      this.#emit("open");
    };
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = () => {
      if (this.#isClosed || (this.#socket && this.#socket !== socket)) return;
      this.#socket = null;
      this.#end();
      this.#emit("offline");
      setTimeout(() => this.#open(), Math.min(500 * 2 ** this.#tries++, 15_000) * (0.75 + Math.random() / 2));
    };
  }

  #end() {
    this.#timers.forEach((timer) => clearTimeout(timer)); // and the intervals
    for (const { reject } of this.#waiting.values()) reject(new HubbubError("Offline", "The connection was lost."));
    this.#waiting.clear();
  }

  #receive(frame) {
    const sent = frame.ref && this.#waiting.get(frame.ref);
    if (sent) {
      this.#waiting.delete(frame.ref);
      if (frame.type === "ack") sent.resolve();
      else sent.reject(new HubbubError(frame.code));
    } else if (frame.type === "resume") this.resumeToken = frame.token;
    else this.receive?.(frame);
  }

  #emit(type, detail) {
    this.dispatchEvent(Object.assign(new Event(type), { detail }));
  }
}

export class Listener {
  topics = new Map();
  #connection;

  constructor(address, options) {
    this.#connection = new Connection(address, { listen: 1 }, options);
    this.#connection.addEventListener("open", () => this.topics.forEach((_, topic) => this.#subscribe(topic)));
    this.#connection.addEventListener("offline", () => this.topics.forEach(({ onState }) => onState(false)));
    this.#connection.receive = ({ type, topic, value }) => {
      const subscriber = this.topics.get(topic);
      if (type === "update" && subscriber) subscriber.isUpdated = true;
      // An update may overtake the first value, and is newer then.
      if (subscriber && (type === "update" || (type === "subscribed" && !subscriber.isUpdated))) subscriber.onValue(value);
    };
  }

  add(topic, subscriber) {
    this.topics.set(topic, subscriber);
    if (this.#connection.isOpen) this.#subscribe(topic);
  }

  /** Unsubscribe from a topic. Return whether it was the last, and the connection is closed. */
  remove(topic) {
    this.topics.delete(topic);
    if (this.topics.size) this.#connection.send({ action: "unsubscribe", topic }).catch(() => {});
    else this.#connection.close();
    return !this.topics.size;
  }

  async #subscribe(topic) {
    const subscriber = this.topics.get(topic);
    subscriber.isUpdated = false;
    try {
      await this.#connection.send({ action: "subscribe", topic });
      subscriber.onState(true);
    } catch (error) {
      if (error.code === "Offline" || this.topics.get(topic) !== subscriber) return;
      if (error.code !== "slow_down") return subscriber.onError(error);
      await pause(5000);
      if (this.topics.get(topic) === subscriber && this.#connection.isOpen) this.#subscribe(topic);
    }
  }
}
