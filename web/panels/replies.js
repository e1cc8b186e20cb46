// The opened replies to a comment, oldest first, and a form for another one.

import { userId } from "../lib/session.js";
import { words } from "../lib/words.js";
import { fields } from "./panel.js";
import { byline } from "./reactions.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const PAGE = 10;
const text = words.comments;

export class Thread {
  #panel; #product; #comment; #items = []; #cursor; #confirming = "";
  #key = crypto.randomUUID(); // of the next reply, the same for each retry

  constructor(panel, product, comment) {
    [this.#panel, this.#product, this.#comment] = [panel, product, comment];
  }

  get #address() { return { product: this.#product, id: this.#comment.id }; }

  /** Load the next page, if there are replies. Return this thread. */
  async load() {
    if (!this.#comment.replies) return this;
    const page = await this.#panel.api.getReplies({ ...this.#address, limit: PAGE, cursor: this.#cursor });
    this.#add(page.items);
    this.#cursor = page.cursor;
    return this;
  }

  /** Add replies in the order of their ids, which is that of time. A reply posted here may come again in a page. */
  #add(more) {
    const all = new Map([...this.#items, ...more].map((one) => [one.id, one]));
    this.#items = [...all.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  focus(what) {
    document.querySelector(`#comments [data-id="${this.#comment.id}"] ${what}`)?.focus();
  }

  /** Render the replies. The page may have loaded the comment again since. */
  template(comment) {
    this.#comment = comment;
    return html`
      <div class="thread">
        ${this.#items.length ? html`<ol aria-label=${text.replies(comment.replies)}>
          ${repeat(this.#items, ({ id }) => id, (reply) => this.#one(reply))}</ol>` : nothing}
        ${this.#cursor ? html`<button type="button" @click=${() => this.#loadMore()}>${text.moreReplies}</button>` : nothing}
        ${userId() ? html`<form @submit=${(event) => this.#post(event)}>
          <label>${text.yourReply} <textarea name="text" rows="2" maxlength="5000" required></textarea></label>
          <button>${text.postReply}</button></form>` : html`<p class="quiet">${text.signInToReply}</p>`}
      </div>`;
  }

  #one(reply) {
    const isSure = this.#confirming === reply.id;
    const confirm = (id) => {
      this.#confirming = id;
      this.#panel.draw();
    };
    return html`
      <li data-reply=${reply.id} tabindex="-1">
        <p class="by">${byline(reply)}
          ${reply.author === userId() ? html`<button type="button" class="plain" @blur=${() => this.#confirming && confirm("")}
            @click=${() => (isSure ? this.#remove(reply) : confirm(reply.id))}>${
            isSure ? text.reallyDelete : text.delete}</button>` : nothing}
        </p>
        <p class="text" lang=${reply.language} dir="auto">${reply.text}</p>
      </li>`;
  }

  async #loadMore() {
    const known = new Set(this.#items);
    await this.#panel.act(async () => void await this.load());
    this.focus(`[data-reply="${this.#items.find((one) => !known.has(one))?.id}"]`);
  }

  #post(event) {
    const form = event.target, body = fields(event);
    this.#panel.act(async () => {
      this.#add([await this.#panel.api.postReply({ ...this.#address, ...body }, { idempotencyKey: this.#key })]);
      this.#comment.replies += 1;
      this.#key = crypto.randomUUID();
      form.reset();
      return text.replied;
    });
  }

  async #remove(reply) {
    this.#confirming = "";
    const isDone = await this.#panel.act(async () => {
      await this.#panel.api.deleteReply({ ...this.#address, reply: reply.id });
      this.#items = this.#items.filter((one) => one !== reply);
      this.#comment.replies -= 1;
      return text.deleted;
    });
    if (isDone) this.focus("[aria-expanded]");
  }
}
