// The lag between a write and its aggregates, and the quarantine of item images that could not be aggregated.

import { call, ApiError } from "./api.js";
import { article, facts, List, when } from "./list.js";
import { make } from "../widgets/element.js";

const INTERVAL = 10_000; // ms between two measurements; each costs some write units
const LATE = 10; // seconds of lag from which it is highlighted
const byId = (id) => document.getElementById(id);

const entries = new List(document.querySelector("#stream .list"), drawImage, "The quarantine is empty.");
export const showQuarantine = () => entries.show("quarantine");
document.querySelector("#stream .refresh").addEventListener("click", showQuarantine);

let timer = 0, watching = false;

/** Measure the lag at intervals while the page is visible. */
export function watch(on = true) {
  watching = on;
  clearTimeout(timer);
  if (on && !document.hidden) measure();
}

async function measure() {
  const problem = byId("lag-problem");
  try {
    const { seconds, counted } = await call("GET", "lag");
    byId("behind").textContent = counted ? duration(seconds) : `${duration(seconds)} or more`;
    byId("lag-text").textContent = counted ? "from a write until it is aggregated" : "lag: a test write has not been aggregated yet";
    byId("lag").classList.toggle("late", seconds > LATE || !counted);
    problem.hidden = true;
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
    byId("behind").textContent = "–";
    if (error instanceof ApiError && error.status < 500) return;
  }
  clearTimeout(timer);
  if (watching && !document.hidden) timer = setTimeout(measure, INTERVAL);
}

document.addEventListener("visibilitychange", () => watch(watching));

function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function drawImage({ time, change, reason, pk, sk, image }) {
  return article(
    make("p", {}, make("strong", {}, reason || "No reason recorded")),
    facts(pk ? `${pk} ${sk}` : "Unknown item", ` · ${change === "written" ? "new image" : "old image"} · `, when(time)),
    make("pre", { tabIndex: 0 }, image ?? "The image was too large to store."),
  );
}
