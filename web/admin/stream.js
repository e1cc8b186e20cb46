// The lag between a write and its aggregates, and the quarantine of item images that could not be aggregated.

import { make } from "../lib/dom.js";
import { dates, formats, localClock } from "../lib/pages.js";
import { Bars } from "../lib/chart.js";
import { call } from "./client.js";
import { article, facts, List, when } from "./list.js";
import { words } from "./words.js";

const INTERVAL = 10_000; // ms between two measurements; each costs some write units
const LATE = 10; // seconds of lag from which it is highlighted
const KEPT = 60; // measurements in the plot: ten minutes
const text = words.admin;
const byId = (id) => document.getElementById(id);

const entries = new List(document.querySelector("#stream .list"), drawImage, text.quarantineEmpty);
export const showQuarantine = () => entries.show("getQuarantine");
document.querySelector("#stream .refresh").addEventListener("click", showQuarantine);

let timer = 0, watching = false, measured = [];
const bars = new Bars();

/** Measure the lag at intervals while the page is visible. */
export function watch(on = true) {
  watching = on;
  clearTimeout(timer);
  if (on && !document.hidden) measure();
}

async function measure() {
  const problem = byId("lag-problem");
  try {
    const { seconds, counted } = await call("getLag");
    byId("behind").textContent = counted ? duration(seconds) : text.orMore(duration(seconds));
    byId("lag-text").textContent = counted ? text.lagCounted : text.lagPending;
    byId("lag").classList.toggle("late", seconds > LATE || !counted);
    problem.hidden = true;
    measured = [...measured, { time: Date.now(), seconds }].slice(-KEPT);
    plot();
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
    byId("behind").textContent = "–";
    if (error.status && error.status < 500) return;
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

function plot() {
  byId("lag-figure").hidden = false;
  const isMinute = (i) => i > 0 && Math.floor(measured[i].time / 60_000) !== Math.floor(measured[i - 1].time / 60_000);
  bars.show(byId("lag-plot"), {
    series: [{ values: measured.map(({ seconds }) => Math.round(seconds * 1000)), className: "visitors", width: 0.8 }],
    ticks: () => measured.flatMap(({ time }, i) => (i === 0 || isMinute(i) ? [{ at: i, text: dates.hour(time) }] : [])),
    short: formats.short,
    xTitle: text.timeAxis,
    yTitle: text.lagAxis,
    describe: (i) => `${dates.second(measured[i].time)} UTC (${localClock(measured[i].time)}): ${duration(measured[i].seconds)}`,
    summary: text.lagSummary(duration(Math.max(...measured.map(({ seconds }) => seconds)))),
    hint: words.chart.hint,
  });
}

function drawImage({ time, change, reason, pk, sk, image }) {
  return article(
    make("p", {}, make("strong", {}, reason || text.noReason)),
    facts(pk ? `${pk} ${sk}` : text.unknownItem, ` · ${change === "written" ? text.newImage : text.oldImage} · `, when(time)),
    make("pre", { tabIndex: 0 }, image ?? text.tooLarge),
  );
}
