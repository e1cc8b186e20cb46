// <hubbub-comments product="garment-767">: the comments on a product, to read, filter, write, edit and delete.

import { make, stars } from "../lib/dom.js";
import { HubbubError } from "../lib/core.js";
import { entry, form } from "./comment.js";
import { findLanguage, languageTag, newKey, Widget } from "./element.js";
import { remembered } from "./remembered.js";
import { reactions } from "./reactions.js";

const RETRY = 5000; // ms until a page of the list is loaded again
const AGGREGATED = 700; // ms after which the statistics usually include a write
const ULID = /[0-9A-HJKMNP-TV-Z]{26}/;
const LINKED = /^#comment-([0-9A-HJKMNP-TV-Z]{26})$/;
const RATINGS = [5, 4, 3, 2, 1];
const BY_RATING = ["highest", "lowest"]; // orders
// The comments of this browser's visitors that wait for approval, as pairs of product and id. No list of the API has them.
const [readPending, writePending] = remembered("hubbub.pending", 100);
const forget = (id) => writePending(readPending().filter(([, other]) => other !== id));

const REVIEWS = { ratings: "required", perAuthor: "one" }; // until the product's definition is read

class Comments extends Widget {
  static observedAttributes = ["api", "socket", "product", "language", "limit", "structured-data", "token", "guest", "lang"];
  static words = { en: () => import("../words-en/comments.js"), de: () => import("../words-de/comments.js") };
  static every = 15_000;
  static topic = (widget) => `product:${widget.#product}`;
  #turn = 0; #me = ""; #cursor = null; #key = ""; #total = null; #ratings = new Set(); #again = 0; #isLoading = false;
  #rules = REVIEWS; #reading = null;
  #title = make("h3", { part: "title", tabIndex: -1 });
  #facts = make("p", { part: "facts", className: "quiet" });
  #filters = make("div", { part: "filters", className: "row", role: "group" });
  #buttons = new Map(RATINGS.map((rating) => [rating, this.#button(rating)]));
  #only = make("select", { onchange: () => this.#filter() });
  #order = make("select", { part: "order", onchange: () => this.#reload() });
  #described = make("script", { type: "application/ld+json" });
  #write = make("div", { part: "write" });
  #list = make("ol", { part: "list" });
  #news = make("button", { type: "button", part: "news", hidden: true, onclick: () => this.#showNews() });
  #more = make("button", { type: "button", part: "more", hidden: true, onclick: () => this.#loadPage() });
  #announcement = make("p", { className: "hidden", role: "status" });
  #sight = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && this.#loadPage());

  constructor() {
    super(STYLE);
    this.#filters.append(...this.#buttons.values(), this.#only, this.#order);
    this.root.append(
      this.#title, this.#facts, this.#filters, this.#write, this.#news, this.#list, this.stateLine, this.#more, this.#announcement,
    );
    this.#sight.observe(this.#more);
  }

  get #product() { return this.getAttribute("product") ?? location.origin + location.pathname; }
  get #language() { return languageTag(this.getAttribute("language") ?? ""); }

  begin() {
    addEventListener("hashchange", this.#open);
    const { text, words } = this, language = this.#language;
    [this.#title.textContent, this.#news.textContent, this.#more.textContent] = [text.title, text.news, words.more];
    [this.#filters.ariaLabel, this.#only.ariaLabel, this.#order.ariaLabel] = [text.filter, text.language, text.order];
    for (const [rating, button] of this.#buttons) button.querySelector(".hidden").textContent = text.starsBefore(rating);
    const name = language && (new Intl.DisplayNames([this.locale], { type: "language" }).of(language) ?? language);
    this.#only.replaceChildren(make("option", { value: "" }, text.allLanguages), make("option", { value: language }, name));
    this.#only.hidden = !language;
    this.#total = this.#reading = null;
    this.#showRules();
    if (this.#write.lang !== this.locale) this.#write.replaceChildren(); // otherwise what was typed stays
    this.#write.lang = this.locale;
    this.#reload();
  }

  get isNamed() { return LINKED.test(location.hash); }

  end() {
    removeEventListener("hashchange", this.#open);
    this.#turn += 1;
    this.#described.remove();
    clearTimeout(this.#again);
  }

  // -- read --------------------------------------------------------------------------------------------

  async read() {
    const product = this.#product, name = this.getAttribute("structured-data");
    const [counts, rating] = await Promise.all([
      this.call("GET products/{product}/statistics", { product, language: this.#only.value || undefined }),
      name !== null && this.call("GET products/{product}/statistics", { product }, { accept: "application/ld+json" }),
    ]);
    return () => {
      this.#count(counts);
      if (rating) this.#describe(rating, name);
    };
  }

  changed(counts) {
    if (this.#only.value) this.load();
    else this.#count(counts);
  }

  async identified() {
    this.#me = await this.visitor();
    this.#showForm();
  }

  #filter() {
    this.#reload();
    this.load();
  }

  /** Load the list again from the newest comment. */
  async #reload() {
    const turn = (this.#turn += 1);
    this.#cursor = "";
    this.#list.replaceChildren();
    this.#news.hidden = this.#more.hidden = true;
    clearTimeout(this.#again);
    this.#reading ??= this.call("GET products/{product}", { product: this.#product }).catch(() => (this.#reading = null, REVIEWS));
    const [me, rules] = await Promise.all([this.visitor().catch(() => ""), this.#reading]);
    if (turn !== this.#turn) return;
    if (rules.ratings !== this.#rules.ratings) this.#write.replaceChildren(); // its form has other fields
    [this.#me, this.#rules, this.#isLoading] = [me, rules, false];
    this.#showRules();
    this.#showForm();
    await this.#loadPage();
    if (turn === this.#turn) await this.#loadOwn();
    if (turn === this.#turn) this.#open();
  }

  /** Show the comment that the address names, also when it is not on the first page. */
  #open = async () => {
    const [, id] = location.hash.match(LINKED) ?? [];
    const shown = id && (this.#find(id) ?? (await this.#loadOne(id)));
    if (!shown) return;
    shown.scrollIntoView({ block: "center" });
    shown.focus({ preventScroll: true });
  };

  #find(id) {
    return this.#list.querySelector(`[data-id="${CSS.escape(id)}"]`);
  }

  /** Load a comment of the product and put it before the others, if it is there. */
  async #loadOne(id, isExpected = () => true) {
    const turn = this.#turn, key = { product: this.#product, id };
    const comment = await this.call("GET products/{product}/comments/{id}", key, { signed: Boolean(this.#me) }).catch((error) => error);
    if (turn !== this.#turn || this.#find(id) || (comment instanceof Error && comment.status !== 404)) return null;
    if (comment instanceof Error || !isExpected(comment)) return void forget(id);
    this.#list.prepend(this.#entry(comment));
    return this.#list.firstElementChild;
  }

  /** Load the comments of this visitor that wait for approval, which no list has. */
  async #loadOwn() {
    const own = this.#me ? readPending().filter(([product]) => product === this.#product) : [];
    for (const [, id] of own) {
      if (this.#find(id)) forget(id);
      else await this.#loadOne(id, ({ state }) => state === "pending");
    }
    this.#showForm();
  }

  #showNews() {
    this.#order.value = "newest";
    this.#reload();
  }

  /** Show the filters and the orders that the product has. */
  #showRules() {
    const hasRatings = this.#rules.ratings !== "off", chosen = this.#order.value;
    for (const button of this.#buttons.values()) button.hidden = !hasRatings;
    const orders = Object.keys(this.text.orders).filter((order) => hasRatings || !BY_RATING.includes(order));
    this.#order.replaceChildren(...orders.map((value) => make("option", { value, selected: value === chosen }, this.text.orders[value])));
  }

  /** Load the next page. A page can be empty although more pages follow. */
  async #loadPage() {
    if (this.#isLoading || this.#cursor === null) return;
    const turn = this.#turn;
    this.#isLoading = true;
    this.setState("loading", this.#list.childElementCount ? "" : this.words.loading);
    const query = {
      product: this.#product,
      limit: this.getAttribute("limit") || 10,
      rating: [...this.#ratings].join() || undefined,
      language: this.#only.value || undefined,
      order: this.#order.value,
    };
    try {
      for (let page = { items: [] }; !page.items.length && this.#cursor !== null;) {
        page = await this.call("GET products/{product}/comments", { ...query, cursor: this.#cursor || undefined });
        if (turn !== this.#turn) return;
        this.#cursor = page.cursor;
        this.#append(page.items);
      }
    } catch (error) {
      if (turn !== this.#turn) return;
      this.showError(error);
      if (!(error instanceof HubbubError && error.status && error.status < 500)) this.#again = setTimeout(() => this.#loadPage(), RETRY);
    }
    this.#isLoading = false;
    this.#more.hidden = !this.#cursor;
  }

  #append(items) {
    const there = new Set([...this.#list.children].map(({ dataset }) => dataset.id));
    this.#list.append(...items.filter(({ id }) => !there.has(id)).map((comment) => this.#entry(comment)));
    const count = this.#list.childElementCount;
    const none = this.#ratings.size || this.#only.value ? this.text.noMatch : this.text.none;
    this.setState(count ? "ready" : "empty", count || this.#cursor !== null ? "" : none);
    this.#announcement.textContent = count ? this.text.shown(count) : "";
    this.#showForm();
  }

  #count({ total, average, ratings }) {
    const { text, formats } = this, isRated = average !== null;
    const none = total || this.#rules.ratings === "off" ? text.comments(total) : text.noRatings;
    this.#facts.replaceChildren(
      ...(isRated ? [stars(Math.round(average), text.starsOf5(Math.round(average))), text.facts(average, total)] : [none]),
    );
    for (const [rating, button] of this.#buttons) button.querySelector("span").textContent = formats.count(ratings[rating]);
    if (this.#total !== null && total > this.#total && !this.#only.value) this.#news.hidden = false;
    if (!this.#only.value) this.#total = total;
    if (this.dataset.state === "offline") this.setState("ready");
  }

  /** Put schema.org's rating into the page for search engines, once there is a rating. */
  #describe(rating, name) {
    if (!rating.ratingCount) return this.#described.remove();
    if (name) rating.itemReviewed.name = name;
    this.#described.textContent = JSON.stringify(rating).replaceAll("<", "\\u003c");
    document.head.append(this.#described);
  }

  #button(rating) {
    const press = ({ currentTarget }) => {
      if (!this.#ratings.delete(rating)) this.#ratings.add(rating);
      currentTarget.ariaPressed = String(this.#ratings.has(rating));
      this.#reload();
    };
    return make("button", { type: "button", ariaPressed: "false", onclick: press }, `${rating} `, make("b", { ariaHidden: "true" }, "★"),
      make("i", { className: "hidden" }), " ", make("span", { className: "quiet" }, "–"));
  }

  // -- write -------------------------------------------------------------------------------------------

  /** Show the form to visitors who are signed in, or may be guests, and may write a comment. */
  #showForm() {
    if (!this.#me && !this.isGuest) {
      this.#write.replaceChildren(make("slot", { name: "sign-in" }, make("p", { className: "quiet" }, this.text.signIn)));
    } else if (this.#rules.perAuthor === "one" && [...this.#list.children].some(({ dataset }) => dataset.author === this.#me)) {
      this.#write.replaceChildren();
    } else if (!this.#write.querySelector("form")) {
      this.#key = newKey(); // the same for each retry of this comment
      this.#write.replaceChildren(form(this, { button: this.text.post, ratings: this.#rules.ratings, send: (values) => this.#post(values) }));
    }
  }

  async #post(values) {
    const body = { product: this.#product, ...values, language: this.#language || findLanguage(this) || "en" };
    try {
      const made = await this.call("POST products/{product}/comments", body, { idempotencyKey: this.#key, signed: true });
      this.#me = made.author;
      this.#write.replaceChildren();
      this.#showWritten("posted", made, 1);
    } catch (error) {
      const [other] = (error.code === "Conflict" && error.message.match(ULID)) || [];
      if (!other) throw error;
      this.#showWritten("found", await this.call("GET products/{product}/comments/{id}", { product: this.#product, id: other }, { signed: true }), 0);
      this.setState("ready", this.text.already);
    }
  }

  #showWritten(kind, comment, more) {
    const added = this.#entry(comment);
    this.#find(comment.id)?.remove();
    this.#list.prepend(added);
    added.focus();
    if (comment.state === "pending") writePending([...readPending(), [this.#product, comment.id]]);
    else if (this.#total !== null) this.#total += more;
    this.setState("ready");
    this.#showForm();
    this.#announce(kind, comment);
  }

  #announce(kind, comment) {
    this.emit(kind, comment);
    setTimeout(() => this.isConnected && this.load(), AGGREGATED);
  }

  /** Send a vote or a call about replies. It may sign in a guest. */
  async #react(name, args, options) {
    try {
      return await this.call(name, args, { signed: true, ...options });
    } finally {
      this.#me ||= await this.visitor();
    }
  }

  #entry(comment) {
    const key = { product: this.#product, id: comment.id };
    const isMine = Boolean(this.#me) && comment.author === this.#me;
    const shown = entry(comment, this, {
      isMine,
      ratings: this.#rules.ratings,
      reactions: comment.state === "pending" ? [] : reactions(comment, this, {
        product: this.#product,
        isMine,
        mayReact: Boolean(this.#me) || this.isGuest,
        visitor: () => this.#me,
        send: (name, args, options) => this.#react(name, args, options),
      }),
      read: () => this.call("GET products/{product}/comments/{id}", key, { signed: true }),
      edit: async (values, etag) => {
        const changed = await this.call("PATCH products/{product}/comments/{id}", { ...key, ...values }, { ifMatch: etag, signed: true });
        const now = this.#entry(changed);
        shown.replaceWith(now);
        now.focus();
        this.#announce("edited", changed);
      },
      remove: async () => {
        await this.call("DELETE products/{product}/comments/{id}", key, { signed: true }).catch((error) => {
          if (error.status !== 404) throw error;
        });
        shown.remove();
        if (this.#total) this.#total -= 1;
        this.#append([]);
        this.#title.focus();
        this.#announce("deleted", comment);
      },
    });
    return shown;
  }
}

const STYLE = `
.root { gap: 12px; min-height: 400px; }
:host([data-state=loading]) [part=list]:not(:empty) ~ [part=state] { position: static; }
p[part=facts] { display: block; min-height: 1.45em; }
[part=filters] span { display: inline-block; min-width: 1.5em; }
[part=write]:empty, [part=list]:empty { display: none; }
[part=title]:focus { outline: none; }
[part=filters] button { padding: 4px 10px; }
[part=filters] select { min-height: 34px; padding: 4px 8px; }
button[aria-pressed=true] { border-color: var(--h-accent); background: var(--h-tint); }
b, .stars { color: var(--h-star); font-weight: 400; letter-spacing: 1px; white-space: nowrap; }
[part=list] { display: grid; grid-template-columns: minmax(0, 1fr); gap: 12px; }
[part~=comment] { padding-top: 12px; border-top: 1px solid var(--h-line); }
[part~=comment]:focus, [part=reply]:focus { outline: none; }
[part~=mine] { margin: 0 -8px; padding: 12px 8px; border-radius: 8px; background: var(--h-tint); }
[part=text] { display: grid; gap: 8px; margin-top: 4px; white-space: pre-line; overflow-wrap: anywhere; }
[part=permalink] { color: inherit; text-decoration: none; }
[part=permalink]:hover { text-decoration: underline; }
[part=pending] { padding: 0 8px; border: 1px solid var(--h-edge); border-radius: 99px; color: var(--h-quiet); font-size: 13px; font-style: normal; }
[part=text] a { color: var(--h-accent); }
[part=report] { margin-top: 8px; }
[part=report] input { width: 100%; margin-top: 4px; }
[part=reactions] { margin-top: 6px; }
[part=vote] { min-height: 28px; padding: 0 12px; border-radius: 99px; font-size: 14px; }
[part=thread] { display: grid; grid-template-columns: minmax(0, 1fr); gap: 10px; margin-top: 8px; padding-inline-start: 12px; border-inline-start: 2px solid var(--h-line); }
[part=thread] > button { justify-self: start; }
[part=replies] { display: grid; gap: 14px; }
[part=head], [part=reply] .row { row-gap: 0; }
[part=tools], [part=reactions] > .link:first-child { margin-inline-start: -4px; }
[part=replies]:empty { display: none; }
[part=more], [part=news] { justify-self: center; }
form { display: grid; gap: 8px; justify-items: start; }
textarea { width: 100%; min-height: 72px; padding: 8px 10px; resize: vertical; }
label { width: 100%; }
legend { padding: 0; color: var(--h-quiet); font-size: 13px; }
.choose { display: flex; flex-wrap: wrap; row-gap: 4px; }
.choose label { position: relative; width: 32px; font-size: 26px; line-height: 32px; text-align: center; color: var(--h-edge); cursor: pointer; }
.choose input { position: absolute; inset: 0; margin: 0; opacity: 0; cursor: pointer; }
.choose label:has(:checked), .choose label:has(~ label :checked) { color: var(--h-star); }
.choose label:has(:focus-visible) { outline: 2px solid var(--h-accent); border-radius: 6px; }
`;

customElements.define("hubbub-comments", Comments);
