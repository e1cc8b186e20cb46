// The client of a Hubbub stage in browsers and in Node: docs/embed.md. What a method does stands in its types.

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
  getViewsGoals: "GET views/goals",
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

const MINUTE = 60_000, HOUR = 60 * MINUTE, PATIENCE = 5000; // ms
const LIMITS = { topics: 10, messages: 20, reportBytes: 6000 }; // of a connection and of a report
const encoder = new TextEncoder();
const guests = new Map(); // by API, where there is no storage
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class HubbubError extends Error {
  name = "HubbubError";

  constructor(code, message = code, { status = 0, retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { code, status, retryAfter });
  }
}

export class Hubbub {
  #api; #options; #token = ""; #socket; #listeners = [];

  constructor(api, options = {}) {
    this.#api = new URL(String(api).replace(/\/*$/, "/"), globalThis.location?.href).href;
    this.#options = options;
    this.#socket = options.socket;
  }

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

  chat(lobby = "main", { interests = [], resume = "" } = {}) {
    const query = { lobby, receipts: 1, ...(interests.length && { interests: interests.join(",") }) };
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
    this.#emit("frame", { way: "SEND", name: frame.action });
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

class Chat extends Connection {
  state = "offline"; pair;
  #messages = []; #received = []; #confirmed = 0; #acknowledged = 0; #changes = 0;

  constructor(...given) {
    super(...given);
    this.addEventListener("offline", () => this.#setState("offline"));
  }

  // A partner that confirms nothing for five seconds may be out of reach. The server parts the two then.
  sendMessage(text) {
    const { pair } = this;
    return new Promise((resolve, reject) => {
      let timer;
      const wait = () => { timer = setTimeout(check, PATIENCE); };
      const check = async () => {
        if (Date.now() - this.#acknowledged < PATIENCE) return wait();
        await Promise.race([this.send({ action: "check", pair }).catch(() => {}), pause(PATIENCE)]);
        reject(new HubbubError("unconfirmed"));
      };
      wait();
      this.send({ action: "message", text, pair }).then(() => {
        this.#acknowledged = Date.now();
        this.#record(text, true);
        resolve();
      }, reject).finally(() => clearTimeout(timer));
    });
  }

  async sendTyping() { this.post({ action: "typing", pair: this.pair }); }
  next() { return this.#change("next", "waiting", this.state === "matched" && { pair: this.pair }); }
  find() { return this.#change("find", "waiting"); }
  leave() { return this.#change("leave", "idle"); }

  report(reason) {
    const messages = [...this.#messages];
    while (encoder.encode(JSON.stringify(messages)).length > LIMITS.reportBytes) messages.shift();
    const state = this.state === "matched" ? "waiting" : this.state;
    return this.#change("report", state, { reason, messages, pair: this.pair });
  }

  close() {
    super.close();
    this.#setState("offline");
  }

  receive(frame) {
    const { type, pair } = frame;
    if (type === "status" || type === "system") {
      if (pair && pair !== this.pair) [this.pair, this.#messages] = [pair, []];
      this.#setState(frame.state ?? (frame.code === "partner_connected" ? "matched" : "waiting"));
    } else if (!pair || pair === this.pair) { // and not from a partner that has just left
      if (type === "message") {
        this.#record(frame.text, false);
        if (frame.id) this.#confirm(frame.id);
      }
      this.dispatchEvent(Object.assign(new Event(type), { detail: frame }));
    }
  }

  // One receipt a second at most: it counts for the rate of frames.
  #confirm(id) {
    if (this.#received.push(id) > 1) return;
    setTimeout(() => {
      this.#confirmed = Date.now();
      this.post({ action: "received", ids: this.#received.splice(0) });
    }, this.#confirmed + 1000 - Date.now());
  }

  // A match may come before the reply, so the state changes first. After a refusal the server tells it.
  async #change(action, state, fields) {
    const change = ++this.#changes;
    if (this.isOpen && this.state !== (action === "find" ? "matched" : state)) this.#setState(state);
    try {
      await this.send({ action, ...fields });
      if (action === "leave" && change === this.#changes) this.#setState(state);
    } catch (error) {
      this.post({ action: "status" });
      if (action !== "next" || error.code !== "not_matched") throw error; // the partner has left before
    }
  }

  #setState(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(Object.assign(new Event("state"), { detail: state }));
  }

  #record(text, mine) {
    this.#messages = [...this.#messages, { text, mine }].slice(-LIMITS.messages);
  }
}
