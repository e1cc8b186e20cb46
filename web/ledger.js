// Beside each panel: which calls it makes, and what each of them took.

import { api } from "./config.js";
import { html, nothing, render, repeat } from "./vendor/lit.js";
import { count, plural } from "./words.js";

const UNITS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** Keep an element up to date with the calls of a panel; `files` are its code: ours here, and the app's. */
export function showLedger(calls, element, { script, module, documented }) {
  let isDue = false;
  const draw = () => {
    isDue = false;
    render(template(calls, script, module, documented), element);
  };
  calls.addEventListener("call", () => {
    if (!isDue) requestAnimationFrame(draw); // many calls, one drawing
    isDue = true;
  });
  draw();
}

function template(calls, script, module, documented) {
  const rows = [...calls.rows.values()].reverse();
  return html`
    <p class="links">
      <a href="${api}docs#/${documented}">The calls</a>
      <a href="${api}web/${script}">This panel’s code</a>
      <span>behind it: <code>${module}</code></span>
    </p>
    <ol class="calls">
      ${repeat(rows, (row) => `${row.method} ${row.path}`, (row) => html`
        <li class=${row.isBad ? "bad" : nothing}>
          <span class="call" title=${row.path}><b>${row.method}</b> ${decodeURIComponent(row.path)}</span>
          <span class="took">
            ${[row.status, row.took && `${row.took.toFixed(0)} ms`, cost(row)].filter(Boolean).join(" · ")}
            ${row.times > 1 ? html`<span class="times">×${count.format(row.times)}</span>` : nothing}
          </span>
        </li>`)}
    </ol>
    <p class="sum">${calls.made ? sum(calls) : "Nothing was asked yet"}</p>`;
}

function cost({ cost: units, took }) {
  if (!units) return took === undefined ? "" : "cost not said"; // the stage does not say it
  const parts = [units.read && `${UNITS.format(units.read)} RCU`, units.write && `${UNITS.format(units.write)} WCU`];
  return parts.filter(Boolean).join(" + ") || "no units";
}

// Frames never say what they cost: `python -m bench chat` measures it.
function sum({ made, frames, read, write }) {
  if (frames) return plural(frames, "frame");
  return `${plural(made, "call")}, ${UNITS.format(read)} RCU, ${UNITS.format(write)} WCU`;
}
