// How far the sums are behind what is written, and what could not be added to them.

import { call, Refused } from "./admin-calls.js";
import { article, facts, List, when } from "./admin-list.js";
import { make } from "./widgets/element.js";

const EVERY = 10_000; // ms between two pulses; each costs some write units
const LATE = 10; // seconds
const byId = (id) => document.getElementById(id);

const entries = new List(document.querySelector("#stream .list"), drawImage, "Nothing is in quarantine.");
export const showQuarantine = () => entries.show("quarantine");
document.querySelector("#stream .again").addEventListener("click", showQuarantine);

let timer = 0, watching = false;

/** Measure the lag now and then, for as long as somebody looks. */
export function watch(on = true) {
  watching = on;
  clearTimeout(timer);
  if (on && !document.hidden) measure();
}

async function measure() {
  const problem = byId("lag-problem");
  try {
    const { seconds, counted } = await call("GET", "lag");
    byId("behind").textContent = counted ? said(seconds) : `${said(seconds)} or more`;
    byId("lag-text").textContent = counted ? "from a write until the sums have it" : "behind: a pulse was sent and is not in the sums yet";
    byId("lag").classList.toggle("late", seconds > LATE || !counted);
    problem.hidden = true;
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
    byId("behind").textContent = "–";
    if (error instanceof Refused && error.status < 500) return;
  }
  clearTimeout(timer);
  if (watching && !document.hidden) timer = setTimeout(measure, EVERY);
}

document.addEventListener("visibilitychange", () => watch(watching));

function said(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function drawImage({ time, change, reason, pk, sk, image }) {
  return article(
    make("p", {}, make("strong", {}, reason || "Without a reason")),
    facts(pk ? `${pk} ${sk}` : "Of which item cannot be told", ` · ${change === "written" ? "became this" : "ceased to be this"} · `, when(time)),
    make("pre", { tabIndex: 0 }, image ?? "It was too large to keep."),
  );
}
