// The list beside each panel: its API calls with status, duration and consumed capacity.

import { api } from "../lib/config.js";
import { html, nothing, render, repeat } from "../vendor/lit.js";
import { count, plural } from "../lib/words.js";

const UNITS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** Show a panel's calls in an element. `script` and `module` name its code here and in the app, `documented` its tag. */
export function showCallLog(calls, element, { script, module, documented }) {
  let isDue = false;
  const draw = () => {
    isDue = false;
    render(template(calls, script, module, documented), element);
  };
  calls.addEventListener("call", () => {
    if (!isDue) requestAnimationFrame(draw); // one drawing for many calls
    isDue = true;
  });
  draw();
}

function template(calls, script, module, documented) {
  const rows = [...calls.rows.values()].reverse();
  return html`
    <p class="links">
      <a href="${api}docs#/${documented}">API reference</a>
      <a href="${api}web/${script}">Source of this panel</a>
      <span>server code: <code>${module}</code></span>
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
    <p class="sum">${calls.made ? sum(calls) : "No calls yet"}</p>`;
}

function cost({ cost: units, took }) {
  if (!units) return took === undefined ? "" : "cost not reported"; // HUBBUB_CAPACITY is off
  const parts = [units.read && `${UNITS.format(units.read)} RCU`, units.write && `${UNITS.format(units.write)} WCU`];
  return parts.filter(Boolean).join(" + ") || "no units";
}

// Frames do not report their cost. `python -m bench chat` measures it.
function sum({ made, frames, read, write }) {
  if (frames) return plural(frames, "frame");
  return `${plural(made, "call")}, ${UNITS.format(read)} RCU, ${UNITS.format(write)} WCU`;
}
