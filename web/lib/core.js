// The calls, guests and live values of the client (hubbub.js). socket.js is loaded when a socket is needed.

// Written by `python -m ops client`: each call with its method and path. `!` needs a token.
// The names behind `?` are sent in the query, the others in the body. A call without a body sends all in the query.
const CALLS = {
  postGuest: "POST guests",
  postViews: "POST views",
  getViews: "GET views",
  getViewsSeries: "GET views/series",
  getViewsEvents: "GET! views/events",
  getViewsTop: "GET views/top",
  getViewsSite: "GET views/site",
  getViewsReferrers: "GET views/referrers",
  getViewsVisitors: "GET views/visitors",
  getViewsCampaigns: "GET views/campaigns",
  getViewsGoals: "GET views/goals",
  getSites: "GET! sites",
  putSite: "PUT! sites/{site}",
  getSite: "GET! sites/{site}",
  deleteSite: "DELETE! sites/{site}",
  postSiteLink: "POST! sites/{site}/links",
  putBoard: "PUT! leaderboards/{board}",
  getBoard: "GET leaderboards/{board}",
  getBoards: "GET! leaderboards",
  postSeason: "POST! leaderboards/{board}/seasons",
  postScore: "POST! leaderboards/{board}/scores?standing",
  getRank: "GET leaderboards/{board}/rank",
  getScore: "GET leaderboards/{board}/score",
  getStandings: "GET leaderboards/{board}/standings",
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
  putProduct: "PUT! products/{product}",
  getProduct: "GET products/{product}",
  deleteProduct: "DELETE! products/{product}",
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
  #api; #options; #token = ""; #socket; #listeners = [];

  constructor(api, options = {}) {
    this.#api = new URL(String(api).replace(/\/*$/, "/"), globalThis.location?.href).href;
    this.#options = options;
    this.#socket = options.socket;
  }

  async request(name, args = {}, { idempotencyKey, ifMatch, signal, auth } = {}) {
    const [method, template, ...queried] = CALLS[name].split(/[ ?&]/);
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
    const listen = async () => {
      const address = await this.#findSocket(), { Listener } = await import("./socket.js");
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
