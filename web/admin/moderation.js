// Moderation: hide, show and delete comments, and read reports of chat partners.

import { make, stars } from "../lib/dom.js";
import { call } from "./client.js";
import { confirmed } from "./confirm.js";
import { article, facts, List, when } from "./list.js";
import { words } from "./words.js";

const text = words.admin;

const byId = (id) => document.getElementById(id);

// -- comments ------------------------------------------------------------------------------------------

let product = "";
const comments = new List(document.querySelector("#comments .list"), drawComment, text.noComments);

byId("choose-product").addEventListener("submit", (event) => {
  event.preventDefault();
  showComments();
});
byId("choose-product").addEventListener("change", (event) => event.target.type === "radio" && showComments());

/** Show the newest comments of all products. */
export const showNewest = () => showProduct("");

/** Show the comments on a product, or of all products. */
export function showProduct(name) {
  byId("product").value = name;
  showComments();
}

function showComments() {
  product = byId("product").value.trim();
  const { which } = byId("choose-product").elements;
  for (const choice of which) choice.disabled = !product; // the newest comments are visible and hidden ones
  comments.show(...(product ? [which.value, { product }] : ["getAllComments"]));
}

function drawComment(comment) {
  const on = comment.product ?? product, named = { product: on, id: comment.id };
  const problem = make("p", { className: "mark-bad", role: "alert" });
  const mark = make("strong", { hidden: !comment.hidden }, `${text.hidden} `);
  const hide = make("button", { type: "button", onclick: () => attempt(toggleHidden) }, comment.hidden ? text.showAgain : text.hide);
  const drop = confirmed(text.delete, () => attempt(remove));
  const shown = article(
    make("p", { className: "row" }, ...(comment.rating ? [stars(comment.rating, words.comments.starsOf5(comment.rating))] : []), make("strong", { title: comment.author }, comment.name ?? comment.author), mark),
    make("p", { className: "words", dir: "auto", lang: comment.language }, comment.text),
    facts(...(product ? [] : [make("a", { href: `#product/${encodeURIComponent(on)}` }, on), " · "]), when(comment.created), ` · ${comment.language}`, comment.edited ? ` · ${words.comments.edited}` : ""),
    make("div", { className: "row" }, hide, drop),
    problem,
  );
  shown.classList.toggle("off", comment.hidden);

  async function attempt(work) {
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      problem.textContent = error.message;
    }
  }

  async function toggleHidden() {
    const now = await call("patchComment", { ...named, hidden: !comment.hidden });
    comment.hidden = now.hidden;
    mark.hidden = !now.hidden;
    shown.classList.toggle("off", now.hidden);
    hide.textContent = now.hidden ? text.showAgain : text.hide;
  }

  async function remove() {
    await call("deleteComment", named);
    const next = shown.nextElementSibling ?? shown.previousElementSibling ?? byId("product");
    shown.remove();
    next.focus();
  }

  return shown;
}

// -- reports -------------------------------------------------------------------------------------------

const reports = new List(document.querySelector("#reports .list"), drawReport, text.noReports);
export const showReports = () => reports.show("getChatReports");
document.querySelector("#reports .refresh").addEventListener("click", showReports);

function drawReport(report) {
  const lines = report.messages.map(({ author, text: said, proved }) =>
    make("p", { className: "words" }, make("strong", {}, author === "reported" ? `${report.reported}: ` : `${report.reporter}: `), make("bdi", {}, said), proved ? "" : make("em", { className: "quiet" }, ` (${text.notVerified})`)),
  );
  const problem = make("p", { className: "mark-bad", role: "alert" });
  const hours = make("select", { ariaLabel: text.banFor }, ...Object.entries(text.bans).map(([value, label]) => make("option", { value }, label)));
  const act = async (body) => {
    problem.textContent = "";
    try {
      await call("postChatReport", { id: report.id, ...body });
      shown.remove();
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const dismiss = make("button", { type: "button", onclick: () => act({ action: "dismiss" }) }, text.dismiss);
  const ban = confirmed(text.ban, () => act({ action: "ban", hours: Number(hours.value) }));
  const shown = article(
    make("p", {}, make("strong", {}, report.reason)),
    facts(when(report.time), ` · ${text.reportFacts(report)}`),
    ...(lines.length ? [make("div", { className: "said-by" }, ...lines)] : []),
    make("div", { className: "row" }, dismiss, ban, hours),
    problem,
  );
  return shown;
}
