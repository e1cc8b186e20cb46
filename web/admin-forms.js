// Leaderboards and challenges, defined. What is wrong with a field, the API says.

import { call, part } from "./admin-calls.js";

const byId = (id) => document.getElementById(id);

/**
 * Let a form define things: `read` answers the body of its PUT, `fill` writes a definition into its fields.
 * A message that begins with a field's name marks that field.
 */
function defines(form, kind, read, fill) {
  const name = form.elements[kind], problem = form.querySelector(".problem"), done = form.querySelector(".done");

  async function attempt(work) {
    problem.hidden = true;
    done.textContent = "";
    for (const field of form.elements) field.removeAttribute("aria-invalid");
    const buttons = form.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    try {
      if (!name.value.trim()) throw new Error(`${kind}: it must have a name`);
      done.textContent = await work(`${kind}s/${part(name.value.trim())}`);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      const field = form.elements[error.message.match(/^(\w+)\b[^:]*:/)?.[1]];
      if (field?.setAttribute) {
        field.setAttribute("aria-invalid", "true");
        field.focus();
      }
    }
    for (const button of buttons) button.disabled = false;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async (path) => {
      const made = await call("PUT", path, { body: read(form.elements) });
      fill(form.elements, made);
      return `Defined: ${made.title}.`;
    });
  });
  form.querySelector(".load").addEventListener("click", () => attempt(async (path) => {
    const found = await call("GET", path);
    fill(form.elements, found);
    return `This is ${found.title} as it is.`;
  }));
}

// An empty number is none: the API says what it makes of that.
const number = (field) => (field.value === "" ? null : Number(field.value));
const instant = (field) => (field.value ? `${field.value}${field.value.length === 16 ? ":00" : ""}Z` : null);
const local = (text) => (text ? new Date(text).toISOString().slice(0, 19) : "");

defines(
  byId("board"),
  "leaderboard",
  ({ title, unit, decimals, min, max, order, operator, resets, shards }) => ({
    title: title.value,
    unit: unit.value,
    decimals: number(decimals),
    min: number(min),
    max: number(max),
    order: order.value,
    operator: operator.value,
    resets: instant(resets),
    shards: number(shards),
  }),
  (fields, made) => {
    for (const name of ["title", "unit", "decimals", "min", "max", "order", "operator", "shards"]) fields[name].value = made[name];
    fields.resets.value = local(made.resets);
  },
);

defines(
  byId("challenge"),
  "challenge",
  ({ title, paths, limit, ranked, opens, closes }) => ({
    title: title.value,
    paths: paths.value.split("\n").map((path) => path.trim()).filter(Boolean),
    limit: number(limit),
    ranked: ranked.checked,
    opens: instant(opens),
    closes: instant(closes),
  }),
  (fields, made) => {
    for (const name of ["title", "limit"]) fields[name].value = made[name];
    fields.ranked.checked = made.ranked;
    fields.opens.value = local(made.opens);
    fields.closes.value = local(made.closes);
  },
);
