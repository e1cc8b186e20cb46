// The list of a panel's calls, with status, duration and consumed capacity.

import { api } from "../lib/config.js";
import { count, points } from "../lib/language.js";
import { words } from "../lib/words.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const round = (units) => points(Math.round(units * 10) / 10);

/** Render a panel's calls. `script` and `module` name its code here and in the app, `documented` its tag. */
export function callLog(calls, { script, module, documented }) {
  const rows = [...calls.rows.values()].reverse();
  return html`<div class="ledger">
    <p class="sum">${calls.made ? sum(calls) : words.panel.noCalls}</p>
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
    <p class="links">
      <a href="${api}docs#/${documented}">${words.front.reference}</a>
      <a href="${api}web/${script}">${words.panel.source}</a>
      <span>${words.panel.server} <code>${module}</code></span>
    </p></div>`;
}

function cost({ cost: units, took }) {
  if (!units) return took === undefined ? "" : words.panel.noCost; // HUBBUB_CAPACITY is off
  const parts = [units.read && `${round(units.read)} RCU`, units.write && `${round(units.write)} WCU`];
  return parts.filter(Boolean).join(" + ") || words.panel.noUnits;
}

// Frames do not report their cost. `python -m bench chat` measures it.
function sum({ made, frames, read, write }) {
  if (frames) return words.panel.frames(frames);
  return `${words.panel.calls(made)}, ${round(read)} RCU, ${round(write)} WCU`;
}
