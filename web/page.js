// The page: signing in, the connection state, and the panels.

import * as leaderboard from "./panels/leaderboard.js";
import * as challenge from "./panels/challenge.js";
import * as comments from "./panels/comments.js";
import { isLocal, refused } from "./lib/config.js";
import * as demo from "./lib/demo.js";
import * as live from "./lib/live.js";
import { panels, states } from "./panels/panel.js";
import * as session from "./lib/session.js";
import * as chat from "./panels/chat.js";
import { html, nothing, render } from "./vendor/lit.js";
import * as views from "./panels/views.js";

const byId = (id) => document.getElementById(id);

function showState() {
  const failing = panels.filter((panel) => ["offline", "error"].includes(panel.status));
  const isLoading = panels.some((panel) => panel.status === "loading");
  const [state, text] = failing.some((panel) => panel.status === "offline") ? ["offline", "Offline"]
    : failing.length ? ["error", "Error"]
    : isLoading ? ["loading", "Loading"]
    : live.isPushed() ? ["live", "Live"] : ["live", "Live (polling)"];
  if (byId("state").textContent !== text) byId("state").textContent = text;
  byId("state").dataset.state = state;
}

// -- addresses in the link that are not allowed ---------------------------------------------------------

if (refused.length) {
  const notice = Object.assign(document.createElement("p"), { className: "notice", id: "refused" });
  const names = refused.map((name) => `?${name}=`).join(" and ");
  notice.textContent = `The address in ${names} was ignored because this page’s web/config.json does not allow it.`;
  notice.setAttribute("role", "alert");
  document.querySelector("main").before(notice);
}

// -- signing in ----------------------------------------------------------------------------------------

let problem = "";

function showName() {
  const name = session.userName() || "Sign in";
  render(html`<button type="button" id="you" @click=${open}>${name}</button>`, byId("who"));
  render(isLocal ? nameForm() : tokenForm(), byId("identity-form"));
}

function open() {
  problem = "";
  showName();
  byId("identity").showModal();
}

const nameForm = () => form("Sign in under another name", html`
  <label>Name <input name="given" .value=${session.userName()} pattern="[a-z0-9\\-]{1,64}" title="a–z, 0–9 and -"
    autocomplete="off" autocapitalize="none" spellcheck="false" required></label>
  <p class="quiet">A local run accepts any name. In a deployment, visitors sign in through your site.</p>`);

const tokenForm = () => form("Sign in", html`
  <label>Bearer token <textarea name="given" rows="4" autocomplete="off" spellcheck="false" required></textarea></label>
  <p class="quiet">An admin creates one with <code>python -m ops token --stage … --sub you</code>.
    This tab keeps it until it is closed.</p>`);

function form(title, content) {
  return html`<form method="dialog" @submit=${signIn}>
    <h2 id="identity-title">${title}</h2>${content}
    ${problem ? html`<p class="notice" role="alert">${problem}</p>` : nothing}
    <div class="row"><button class="primary">Sign in</button>
      <button type="button" @click=${() => byId("identity").close()}>Cancel</button></div></form>`;
}

async function signIn(event) {
  event.preventDefault();
  const given = new FormData(event.target).get("given");
  try {
    if (isLocal) await session.signIn(given.trim());
    else if (!session.useToken(given)) throw new Error("This is not a valid token, or it has expired.");
    byId("identity").close();
  } catch (error) {
    problem = error.message;
    showName();
  }
}

demo.changes.addEventListener("change", () => panels.forEach((panel) => panel.refresh()));
states.addEventListener("change", showState);
live.changes.addEventListener("change", showState);

await session.restore();
showName();
for (const panel of [views, leaderboard, challenge, comments, chat]) panel.start();
session.changes.addEventListener("change", () => {
  showName();
  for (const panel of [leaderboard, challenge, comments]) panel.refresh();
});
