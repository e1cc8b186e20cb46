// Moderation: hide, show and delete comments, and read reports of chat partners.

import { call, encode } from "./api.js";
import { article, facts, List, when } from "./list.js";
import { deleteButton, stars } from "../widgets/comment.js";
import { make } from "../widgets/element.js";

const byId = (id) => document.getElementById(id);

// -- comments ------------------------------------------------------------------------------------------

let product = "";
const comments = new List(document.querySelector("#comments .list"), drawComment, "No comments.");

byId("choose-product").addEventListener("submit", (event) => {
  event.preventDefault();
  showComments();
});
byId("choose-product").addEventListener("change", (event) => event.target.type === "radio" && showComments());

function showComments() {
  product = byId("product").value.trim();
  if (product) comments.show(`products/${encode(product)}/${byId("choose-product").elements.which.value}`);
}

function drawComment(comment) {
  const path = `products/${encode(product)}/comments/${comment.id}`;
  const problem = make("p", { className: "mark-bad", role: "alert" });
  const mark = make("strong", { hidden: !comment.hidden }, "hidden ");
  const hide = make("button", { type: "button", onclick: () => attempt(toggleHidden) }, comment.hidden ? "Show again" : "Hide");
  const drop = deleteButton(() => attempt(remove));
  const shown = article(
    make("p", { className: "row" }, stars(comment.rating), make("strong", {}, comment.author), mark),
    make("p", { className: "words", dir: "auto", lang: comment.language }, comment.text),
    facts(when(comment.created), ` · ${comment.language}`, comment.edited ? " · edited" : ""),
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
    const now = await call("PATCH", path, { body: { hidden: !comment.hidden } });
    comment.hidden = now.hidden;
    mark.hidden = !now.hidden;
    shown.classList.toggle("off", now.hidden);
    hide.textContent = now.hidden ? "Show again" : "Hide";
  }

  async function remove() {
    await call("DELETE", path);
    const next = shown.nextElementSibling ?? shown.previousElementSibling ?? byId("product");
    shown.remove();
    next.focus();
  }

  return shown;
}

// -- reports -------------------------------------------------------------------------------------------

const reports = new List(document.querySelector("#reports .list"), drawReport, "No reports.");
export const showReports = () => reports.show("chat/reports");
document.querySelector("#reports .refresh").addEventListener("click", showReports);

function drawReport(report) {
  const lines = report.messages.map(({ author, text, proved }) =>
    make("p", { className: "words" }, make("strong", {}, author === "reported" ? `${report.reported}: ` : `${report.reporter}: `), text, proved ? "" : make("em", { className: "quiet" }, " (not verified)")),
  );
  return article(
    make("p", {}, make("strong", {}, report.reason)),
    facts(when(report.time), ` · lobby ${report.lobby} · ${report.reporter} reported ${report.reported}`),
    ...(lines.length ? [make("div", { className: "said-by" }, ...lines)] : []),
  );
}
