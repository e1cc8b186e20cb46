// The front page: what Hubbub is, its five features as a visitor meets them, signing in, and the connection state.

import * as challenge from "./panels/challenge.js";
import * as chat from "./panels/chat.js";
import * as comments from "./panels/comments.js";
import * as leaderboard from "./panels/leaderboard.js";
import * as views from "./panels/views.js";
import { allowsGuests, api, refused } from "./lib/config.js";
import * as demo from "./lib/demo.js";
import { languageChoice, showSkipLink } from "./lib/header.js";
import * as live from "./lib/live.js";
import * as session from "./lib/session.js";
import { words } from "./lib/words.js";
import { panels, states } from "./panels/panel.js";
import { html, nothing, render } from "./vendor/lit.js";

const SECTIONS = ["views", "leaderboard", "challenge", "comments", "chat"];
const byId = (id) => document.getElementById(id);

function showState() {
  const failing = panels.filter((panel) => ["offline", "error"].includes(panel.status));
  const isLoading = panels.some((panel) => panel.status === "loading");
  const [state, text] = failing.some((panel) => panel.status === "offline") ? ["offline", words.state.offline]
    : failing.length ? ["error", words.state.error]
    : isLoading ? ["loading", words.state.loading]
    : ["live", live.isPushed() ? words.state.live : words.state.polling];
  if (byId("state").textContent !== text) byId("state").textContent = text;
  byId("state").dataset.state = state;
}

// -- what does not change ------------------------------------------------------------------------------

function showFrame() {
  const navigation = document.querySelector(".top nav");
  navigation.setAttribute("aria-label", words.front.sections);
  render(SECTIONS.map((name) => html`<a href="#${name}">${words[name].title}</a>`), navigation);
  render(languageChoice(), byId("choices"));
  showSkipLink();
  render(html`<p>${words.front.foot} <a href="${api}docs">${words.front.reference}</a>,
    <a href="${api}openapi.json">${words.front.openapi}</a>, <a href="web/admin.html">${words.front.admin}</a>.</p>`,
  document.querySelector(".foot"));
}

function showHero() {
  render(html`
    <h1>${words.front.sentence}</h1>
    <p class="lead">${words.front.lead}</p>
    <div class="row">
      <a class="button primary" href="web/dashboard.html">${words.front.dashboard}</a>
      ${demo.demoButton()}
    </div>`, document.querySelector(".hero"));
}

// -- addresses in the link that are not allowed ---------------------------------------------------------

if (refused.length) {
  const notice = Object.assign(document.createElement("p"), { className: "notice", id: "refused" });
  notice.textContent = words.front.refused(refused.map((name) => `?${name}=`));
  notice.setAttribute("role", "alert");
  document.querySelector("main").before(notice);
}

// -- signing in ----------------------------------------------------------------------------------------

let problem = "";

function showName() {
  const name = session.userName();
  render(html`<button type="button" id="you" title=${session.userId() || nothing} @click=${open}>${name || words.signIn.button}</button>`, byId("who"));
  render(html`
    <h2 id="identity-title">${name ? words.signIn.other : words.signIn.button}</h2>
    ${problem ? html`<p class="notice" role="alert">${problem}</p>` : nothing}
    ${allowsGuests ? html`${guestForm()}
      <details><summary>${words.signIn.withToken}</summary>${tokenForm()}</details>` : tokenForm()}`, byId("identity-form"));
}

function open() {
  problem = "";
  showName();
  byId("identity").showModal();
}

const guestForm = () => form("guest", html`
  <label>${words.signIn.name} <input name="given" maxlength="60" autocomplete="off" required></label>
  <p class="quiet">${words.signIn.guest}</p>`, async (given) => session.signInAsGuest(given.trim()));

const tokenForm = () => form("token", html`
  <label>${words.signIn.token} <textarea name="given" rows="4" autocomplete="off" spellcheck="false" required></textarea></label>
  <p class="quiet">${words.signIn.how} <code>python -m ops token --stage … --sub you</code>. ${words.signIn.kept}</p>`, (given) => {
  if (!session.useToken(given)) throw new Error(words.signIn.invalid);
});

function form(name, content, signIn) {
  const submit = async (event) => {
    event.preventDefault();
    try {
      await signIn(new FormData(event.target).get("given"));
      event.target.reset();
      byId("identity").close();
    } catch (error) {
      problem = error.message;
      showName();
    }
  };
  return html`<form method="dialog" name=${name} @submit=${submit}>${content}
    <div class="row"><button class="primary">${words.signIn.button}</button>
      <button type="button" @click=${() => byId("identity").close()}>${words.cancel}</button></div></form>`;
}

// -- beginning -----------------------------------------------------------------------------------------

demo.changes.addEventListener("change", () => {
  showHero();
  panels.forEach((panel) => panel.refresh());
});
states.addEventListener("change", showState);
live.changes.addEventListener("change", showState);

showFrame();
showHero();
document.querySelector("main").hidden = false; // all parts of it at once, so that none moves another
showName();
await session.restore();
showName();
for (const panel of [views, leaderboard, challenge, comments, chat]) panel.start();
session.changes.addEventListener("change", () => {
  showName();
  for (const panel of [leaderboard, challenge, comments]) panel.refresh();
});
