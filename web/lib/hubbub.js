// The client of a Hubbub stage in browsers and in Node: docs/client.md.

// Written by `python -m ops client`: each call with its method and path. `!` needs a token.
const CALLS = {
  postGuest: "POST guests",
  postViews: "POST views",
  getViews: "GET views",
  getViewsSeries: "GET views/series",
  getViewsEvents: "GET! views/events",
  getViewsTop: "GET views/top",
  getViewsSite: "GET views/site",
  getViewsReferrers: "GET views/referrers",
  getViewsCampaigns: "GET views/campaigns",
  getSites: "GET! sites",
  putBoard: "PUT! leaderboards/{board}",
  getBoard: "GET leaderboards/{board}",
  getBoards: "GET! leaderboards",
  postSeason: "POST! leaderboards/{board}/seasons",
  postScore: "POST! leaderboards/{board}/scores",
  getPlayer: "GET leaderboards/{board}/players/{player}",
  deletePlayer: "DELETE! leaderboards/{board}/players/{player}",
  getActivities: "GET! leaderboards/{board}/players/{player}/activities",
  getEntries: "GET leaderboards/{board}/entries",
  getDistribution: "GET leaderboards/{board}/distribution",
  putChallenge: "PUT! challenges/{challenge}",
  getChallenge: "GET challenges/{challenge}",
  getChallenges: "GET! challenges",
  postChallengePath: "POST! challenges/{challenge}/paths",
  getChallengePlayer: "GET! challenges/{challenge}/players/{player}",
  deleteChallengePlayer: "DELETE! challenges/{challenge}/players/{player}",
  deleteChallengePath: "DELETE! challenges/{challenge}/players/{player}/paths/{path}",
  getChallengeLeaders: "GET challenges/{challenge}/leaders",
  getChallengeStatistics: "GET challenges/{challenge}/statistics",
  postComment: "POST! products/{product}/comments",
  getComments: "GET products/{product}/comments",
  getAllComments: "GET! comments",
  getProducts: "GET! products",
  getHidden: "GET! products/{product}/hidden",
  getComment: "GET products/{product}/comments/{id}",
  patchComment: "PATCH! products/{product}/comments/{id}",
  deleteComment: "DELETE! products/{product}/comments/{id}",
  putVote: "PUT! products/{product}/comments/{id}/vote",
  deleteVote: "DELETE! products/{product}/comments/{id}/vote",
  postReply: "POST! products/{product}/comments/{id}/replies",
  getReplies: "GET products/{product}/comments/{id}/replies",
  patchReply: "PATCH! products/{product}/comments/{id}/replies/{reply}",
  deleteReply: "DELETE! products/{product}/comments/{id}/replies/{reply}",
  getAllReplies: "GET! replies",
  getStatistics: "GET products/{product}/statistics",
  getLeaders: "GET products/leaders",
  getLag: "GET! lag",
  getQuarantine: "GET! quarantine",
  getChatReports: "GET! chat/reports",
  postChatReport: "POST! chat/reports/{id}",
  getHealth: "GET health",
  getPageConfig: "GET web/config.json",
};

const MINUTE = 60_000, HOUR = 60 * MINUTE; // ms
const LIMITS = { topics: 10, messages: 20, reportBytes: 6000 }; // of a connection and of a report
const encoder = new TextEncoder();
const guests = new Map(); // by API, where there is no storage
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A refused call or frame. `code` is the contract's, or `Offline` when no response has arrived. */
export class HubbubError extends Error {
  name = "HubbubError";

  constructor(code, message = code, { status = 0, retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { code, status, retryAfter });
  }
}

export class Hubbub {
  #api; #options; #token = ""; #socket; #listeners = [];

  /**
   * `api` is the address of a stage. Options: `token`, a text or a function that returns one. The function is called
   * with true after a token was refused. `socket`, `fetch` and `WebSocket` replace the stage's and the platform's own,
   * and `onCall` is called after each call.
   */
  constructor(api, options = {}) {
    this.#api = new URL(String(api).replace(/\/*$/, "/"), globalThis.location?.href).href;
    this.#options = options;
    this.#socket = options.socket;
  }

  /** Send a call by its name. Return its status, headers and body. Throws HubbubError. */
  async request(name, args = {}, { idempotencyKey, ifMatch, signal, auth } = {}) {
    const [method, template] = CALLS[name].split(" ");
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
    else for (const [key, value] of Object.entries(rest)) if (value != null) url.searchParams.set(key, value);
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
        body = { Code: "BadResponse", Message: `The server responded with status ${status}.` };
      }
      if (response.ok && body?.Code !== "BadResponse") return { status, headers: response.headers, etag: response.headers.get("ETag"), body };
      const retryAfter = Number(response.headers.get("Retry-After")) || 0;
      throw new HubbubError(body?.Code ?? "BadResponse", body?.Message, { status, retryAfter });
    };
    return send(false);
  }

  /** Use this token from now on: a text, or a function as in the constructor's options. */
  set token(token) {
    this.#options = { ...this.#options, token };
    this.#token = "";
  }

  /** The guest that this browser keeps for the stage, or null. */
  get guest() {
    let guest = guests.get(this.#api);
    try {
      guest = JSON.parse(localStorage.getItem(`hubbub.guest ${this.#api}`)) ?? guest;
    } catch { /* there is no storage, or something else in it */ }
    return Date.parse(guest?.expires) > Date.now() + HOUR ? guest : null;
  }

  /**
   * Sign in as the guest that this browser keeps, or as a new one with `fresh`. Another name renames the guest. A change
   * dispatches `hubbub-guest` on the document.
   */
  async signInAsGuest(name, { fresh = false } = {}) {
    let guest = fresh ? null : this.guest;
    const asked = name?.trim();
    // The server may keep another spelling of the name.
    if (!guest || (name != null && guest.asked !== asked && (guest.name ?? "") !== asked)) {
      this.token = guest?.token;
      guest = { ...(await this.postGuest({ name: asked }, { auth: true })), asked, api: this.#api };
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

  /**
   * Call a function with the current value of a topic and again after each change. Return a function that stops it.
   * `onError` gets a refusal, and `onState` whether the topic is connected. While it is not, `poll` is called every
   * `every` ms, and its result is passed on.
   */
  live(topic, onValue, { onError, onState, poll, every = 5000 } = {}) {
    let listener = null, isOpen = false, isStopped = false;
    const refuse = (error) => (onError ? onError(error) : console.error(error));
    const load = () => isOpen || globalThis.document?.visibilityState === "hidden" || poll().then((value) => isStopped || isOpen || onValue(value), () => {});
    const timer = poll && setInterval(load, every);
    this.#findSocket().then((address) => {
      if (isStopped) return;
      listener = this.#listeners.find((one) => one.topics.size < LIMITS.topics && !one.topics.has(topic));
      if (!listener) this.#listeners.push((listener = new Listener(address, this.#options)));
      listener.add(topic, {
        onValue,
        onError: refuse,
        onState(now) {
          isOpen = now;
          onState?.(now);
        },
      });
    }, refuse);
    if (poll) load();
    return () => {
      isStopped = true;
      clearInterval(timer);
      if (listener?.remove(topic)) this.#listeners = this.#listeners.filter((one) => one !== listener);
      listener = null;
    };
  }

  /**
   * Enter a lobby of the chat. Options: `interests`, a list, and `resume`, the token of a suspended place. The bearer
   * token is sent, because its subject may be banned.
   */
  chat(lobby = "main", { interests = [], resume = "" } = {}) {
    const query = { lobby, ...(interests.length && { interests: interests.join(",") }) };
    const findToken = () => this.#findToken(false).catch(() => "");
    return new Chat(this.#findSocket(), query, { ...this.#options, findToken }, resume);
  }

  async #findSocket() {
    this.#socket ??= (await this.getPageConfig()).socket || undefined;
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

for (const name of Object.keys(CALLS)) {
  Hubbub.prototype[name] = function (args, options) {
    const load = async (more) => (await this.request(name, { ...args, ...more }, options)).body;
    const first = load();
    // A list can be awaited, which gives its first page, or iterated over, which loads page after page.
    first[Symbol.asyncIterator] = async function* () {
      for (let page = await first; ; page = await load({ cursor: page.cursor })) {
        yield* page.items;
        if (!page.cursor) return;
      }
    };
    return first;
  };
}

// A socket that reconnects. It asks for `resume` tokens if it chats, and sends pings so that it stays open.
class Connection extends EventTarget {
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
    if (!this.isOpen) return Promise.reject(new HubbubError("Offline", "The socket is not connected."));
    const ref = String(++this.#ref);
    return new Promise((resolve, reject) => {
      this.#waiting.set(ref, { resolve, reject });
      this.#socket.send(JSON.stringify({ ...frame, ref }));
      this.#emit("frame", { way: "SEND", name: frame.action });
    });
  }

  /** Stop and keep the place, before a page is unloaded. */
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
    const quietly = (action) => this.send({ action }).catch(() => {});
    socket.onopen = () => {
      if (this.#isClosed) return socket.close(1000);
      this.#end(); // the frames of the connection before, whose effect is unknown
      this.#socket = socket;
      this.#tries = 0;
      before?.close();
      if (!this.#query.listen) ["status", "resume"].forEach(quietly);
      this.#timers = [
        setTimeout(() => this.#open(), 1.9 * HOUR), // API Gateway closes a connection after two hours
        setInterval(quietly, 4 * MINUTE, "ping"), // … and after ten minutes without a frame
        this.#query.listen ? 0 : setInterval(() => this.state === "waiting" && quietly("ping"), 6000), // anyone will do now
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
    this.#timers.forEach((timer) => { clearTimeout(timer); clearInterval(timer); });
    for (const { reject } of this.#waiting.values()) reject(new HubbubError("Offline", "The connection was lost."));
    this.#waiting.clear();
  }

  #receive(frame) {
    this.#emit("frame", { way: "RECV", name: frame.code ?? frame.type });
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

class Listener {
  topics = new Map();
  #connection;

  constructor(address, options) {
    this.#connection = new Connection(address, { listen: 1 }, options);
    this.#connection.addEventListener("open", () => this.topics.forEach((_, topic) => this.#subscribe(topic)));
    this.#connection.addEventListener("offline", () => this.topics.forEach(({ onState }) => onState(false)));
    this.#connection.receive = ({ type, topic, value }) => {
      const one = this.topics.get(topic);
      if (type === "update" && one) one.isUpdated = true;
      // An update may overtake the first value, and is newer then.
      if (one && (type === "update" || (type === "subscribed" && !one.isUpdated))) one.onValue(value);
    };
  }

  add(topic, one) {
    this.topics.set(topic, one);
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
    const one = this.topics.get(topic);
    one.isUpdated = false;
    try {
      await this.#connection.send({ action: "subscribe", topic });
      one.onState(true);
    } catch (error) {
      if (error.code === "Offline" || this.topics.get(topic) !== one) return;
      if (error.code !== "slow_down") return one.onError(error);
      await pause(5000);
      if (this.topics.get(topic) === one && this.#connection.isOpen) this.#subscribe(topic);
    }
  }
}

/**
 * A place in a lobby. Events: `state` with "offline", "waiting", "matched" or "idle"; `message` with {text, time};
 * `typing`; `failed` when there is no socket; and `frame` for each frame.
 */
class Chat extends Connection {
  state = "offline";
  #messages = [];

  constructor(...given) {
    super(...given);
    this.addEventListener("offline", () => this.#setState("offline"));
  }

  /** Send a text to the partner. Resolves when the partner's connection has it. Rejects with HubbubError. */
  async sendMessage(text) {
    await this.send({ action: "message", text });
    this.#record(text, true);
  }

  /** Tell the partner that a message is being written. */
  sendTyping() { return this.send({ action: "typing" }).catch(() => {}); }
  next() { return this.#change("next", "waiting"); }
  find() { return this.#change("find", "waiting"); }
  leave() { return this.#change("leave", "idle"); }

  /** Report the partner with the last messages, and leave it for good. */
  report(reason) {
    const messages = [...this.#messages];
    while (encoder.encode(JSON.stringify(messages)).length > LIMITS.reportBytes) messages.shift();
    return this.#change("report", "waiting", { reason, messages });
  }

  close() {
    super.close();
    this.#setState("offline");
  }

  receive(frame) {
    if (frame.type === "status") this.#setState(frame.state);
    else if (frame.code === "partner_connected") this.#setState("matched");
    else if (frame.code === "partner_disconnected") this.#setState("waiting");
    else {
      if (frame.type === "message") this.#record(frame.text, false);
      this.dispatchEvent(Object.assign(new Event(frame.type), { detail: frame }));
    }
  }

  // A match may come before the reply, so the state changes first.
  async #change(action, state, fields) {
    if (this.isOpen && this.state !== (action === "find" ? "matched" : state)) this.#setState(state);
    await this.send({ action, ...fields });
  }

  #setState(state) {
    if (state === this.state) return;
    if (this.state === "matched" && state !== "offline") this.#messages = [];
    this.state = state;
    this.dispatchEvent(Object.assign(new Event("state"), { detail: state }));
  }

  #record(text, mine) {
    this.#messages = [...this.#messages, { text, mine }].slice(-LIMITS.messages);
  }
}
