// The page: who you are, whether it is live, and the panels.

import * as board from "./board.js";
import * as challenge from "./challenge.js";
import * as comments from "./comments.js";
import { isLocal, refused } from "./config.js";
import * as demo from "./demo.js";
import * as live from "./live.js";
import { panels, states } from "./panel.js";
import * as session from "./session.js";
import * as talk from "./talk.js";
import { html, nothing, render } from "./vendor/lit.js";
import * as views from "./views.js";

const byId = (id) => document.getElementById(id);

function showState() {
  const failing = panels.filter((panel) => ["offline", "error"].includes(panel.status));
  const isLoading = panels.some((panel) => panel.status === "loading");
  const [state, text] = failing.some((panel) => panel.status === "offline") ? ["offline", "Offline"]
    : failing.length ? ["error", "Error"]
    : isLoading ? ["loading", "Loading"]
    : live.isPushed() ? ["live", "Live"] : ["live", "Live, by polling"];
  if (byId("state").textContent !== text) byId("state").textContent = text;
  byId("state").dataset.state = state;
}

// -- addresses that a link may not choose --------------------------------------------------------------

if (refused.length) {
  const notice = Object.assign(document.createElement("p"), { className: "notice", id: "refused" });
  const names = refused.map((name) => `?${name}=`).join(" and ");
  notice.textContent = `The address in ${names} is not used, because this page’s web/config.json does not allow it.`;
  notice.setAttribute("role", "alert");
  document.querySelector("main").before(notice);
}

// -- who you are ---------------------------------------------------------------------------------------

let problem = "";

function showYou() {
  const named = session.you() || "Who are you?";
  render(html`<button type="button" id="you" @click=${open}>${named}</button>`, byId("who"));
  render(isLocal ? asName() : asToken(), byId("identity-form"));
}

function open() {
  problem = "";
  showYou();
  byId("identity").showModal();
}

const asName = () => form("Be somebody else", html`
  <label>Name <input name="given" .value=${session.you()} pattern="[a-z0-9\\-]{1,64}" title="a–z, 0–9 and -"
    autocomplete="off" autocapitalize="none" spellcheck="false" required></label>
  <p class="quiet">On one machine you can be anybody. In a deployment your site’s own sign-in says who you are.</p>`);

const asToken = () => form("Say who you are", html`
  <label>Bearer token <textarea name="given" rows="4" autocomplete="off" spellcheck="false" required></textarea></label>
  <p class="quiet">An admin makes one: <code>python -m ops token --stage … --sub you</code>.
    It is kept in this tab alone, until you close it.</p>`);

function form(title, content) {
  return html`<form method="dialog" @submit=${enter}>
    <h2 id="identity-title">${title}</h2>${content}
    ${problem ? html`<p class="notice" role="alert">${problem}</p>` : nothing}
    <div class="row"><button class="primary">That is me</button>
      <button type="button" @click=${() => byId("identity").close()}>Cancel</button></div></form>`;
}

async function enter(event) {
  event.preventDefault();
  const given = new FormData(event.target).get("given");
  try {
    if (isLocal) await session.become(given.trim());
    else if (!session.use(given)) throw new Error("That is no token, or it has expired.");
    byId("identity").close();
  } catch (error) {
    problem = error.message;
    showYou();
  }
}

demo.changes.addEventListener("change", () => panels.forEach((panel) => panel.refresh()));
states.addEventListener("change", showState);
live.changes.addEventListener("change", showState);

await session.enter();
showYou();
for (const panel of [views, board, challenge, comments, talk]) panel.start();
session.changes.addEventListener("change", () => {
  showYou();
  for (const panel of [board, challenge, comments]) panel.refresh();
});
