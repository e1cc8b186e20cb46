// What readers add to a comment: votes, and replies. Replies and their module load when they are opened.

import { ago, count, dates } from "../lib/language.js";
import { userId } from "../lib/session.js";
import { hasVoted, toggleVote } from "../lib/votes.js";
import { words } from "../lib/words.js";
import { html, nothing } from "../vendor/lit.js";

const text = words.comments;
const threads = new Map(); // the opened replies, by the id of their comment

export const closeReplies = () => threads.clear();

/** Render the author and the time of a comment or a reply. */
export const byline = ({ author, name, created, edited }, language) => html`
  <b title=${author}>${name ?? author}</b>
  <span class="quiet">${language ? html`<span>${language}</span>, ` : nothing}<time datetime=${created}
    title="${dates.second(created)} UTC">${ago(created) ?? words.justNow}</time>${edited ? `, ${text.edited}` : ""}</span>`;

/** Render the votes and the replies of a comment. */
export function reactions(panel, product, comment) {
  const { id, author, votes, replies } = comment, me = userId(), thread = threads.get(id);
  const vote = () => panel.act(() => toggleVote((name, args) => panel.api[name](args), userId, product, comment));
  const toggle = async () => {
    await panel.act(async () => {
      if (threads.delete(id)) return;
      const { Thread } = await import("./replies.js");
      threads.set(id, await new Thread(panel, product, comment).load());
    });
    if (!replies) threads.get(id)?.focus("textarea");
  };
  return html`
    <div class="reactions">
      ${me && me !== author ? html`<button type="button" aria-pressed=${hasVoted(me, id)} @click=${vote}>${text.helpful}
        <span class="number">${count.format(votes)}</span></button>`
        : votes ? html`<span class="quiet">${text.foundHelpful(votes)}</span>` : nothing}
      ${me || replies ? html`<button type="button" class="plain" aria-expanded=${Boolean(thread)} @click=${toggle}>${
        replies ? text.replies(replies) : text.reply}</button>` : nothing}
    </div>
    ${thread?.template(comment)}`;
}
