// The forms that define leaderboards, challenges and sites. The API validates their fields.

import { call } from "./client.js";
import { words } from "./words.js";

const byId = (id) => document.getElementById(id);

/**
 * Connect a form to the API. `calls` names the call that stores a definition, the one that loads it, and the argument
 * with its name. `read` returns the body of the first, and `fill` writes a definition into its fields. An
 * error marks the field that it names. Returns a function that loads a definition.
 */
function connectForm(form, kind, [put, get, key], read, fill) {
  const name = form.elements[kind], problem = form.querySelector(".problem"), done = form.querySelector(".done");

  async function attempt(work) {
    problem.hidden = true;
    done.textContent = "";
    for (const field of form.elements) field.removeAttribute("aria-invalid");
    const buttons = form.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    try {
      if (!name.value.trim()) throw Object.assign(new Error(words.admin.nameRequired), { field: kind });
      done.textContent = await work({ [key]: name.value.trim() });
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      const field = form.elements[error.field];
      if (field?.setAttribute) {
        field.setAttribute("aria-invalid", "true");
        field.focus();
      }
    }
    for (const button of buttons) button.disabled = false;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async (named) => {
      const saved = await call(put, { ...named, ...read(form.elements) });
      fill(form.elements, saved);
      dispatchEvent(new CustomEvent("hubbub-defined", { detail: { kind, name: name.value.trim() } }));
      return words.admin.savedAs(saved.title ?? saved.site) + (saved.since ? ` ${words.admin.zoneSince(saved.since)}` : "");
    });
  });
  const load = () => attempt(async (named) => {
    const found = await call(get, named);
    fill(form.elements, found);
    return words.admin.loadedAs(found.title ?? found.site);
  });
  form.querySelector(".load").addEventListener("click", load);
  return (text) => {
    name.value = text;
    return load();
  };
}

const lines = (field) => field.value.split(/[\s,]+/).filter(Boolean);
// An empty field is sent as null. The API reports it if a number is required.
const number = (field) => (field.value === "" ? null : Number(field.value));
const instant = (field) => (field.value ? `${field.value}${field.value.length === 16 ? ":00" : ""}Z` : null);
const toField = (text) => (text ? new Date(text).toISOString().slice(0, 19) : "");

/** Load the definition of a leaderboard into its form. */
export const loadBoard = connectForm(
  byId("board"),
  "leaderboard",
  ["putBoard", "getBoard", "board"],
  ({ title, unit, decimals, min, max, order, operator, ties, resets, every, timezone, submit, guests, metadata, shards }) => ({
    title: title.value,
    unit: unit.value,
    decimals: number(decimals),
    min: number(min),
    max: number(max),
    order: order.value,
    operator: operator.value,
    ties: ties.value,
    resets: every.value ? { every: every.value, timezone: timezone.value.trim() || "UTC" } : instant(resets),
    submit: submit.value,
    guests: guests.checked,
    metadata: metadata.checked,
    shards: number(shards),
  }),
  (fields, definition) => {
    for (const name of ["title", "unit", "decimals", "min", "max", "order", "operator", "ties", "submit", "shards"]) fields[name].value = definition[name];
    for (const name of ["guests", "metadata"]) fields[name].checked = definition[name];
    const { resets } = definition, rule = typeof resets === "string" ? null : resets;
    fields.resets.value = rule ? "" : toField(resets);
    [fields.every.value, fields.timezone.value] = [rule?.every ?? "", rule?.timezone ?? "UTC"];
  },
);

/** Load the definition of a challenge into its form. */
export const loadChallenge = connectForm(
  byId("challenge"),
  "challenge",
  ["putChallenge", "getChallenge", "challenge"],
  ({ title, paths, limit, ranked, opens, closes }) => ({
    title: title.value,
    paths: paths.value.split("\n").map((path) => path.trim()).filter(Boolean),
    limit: number(limit),
    ranked: ranked.checked,
    opens: instant(opens),
    closes: instant(closes),
  }),
  (fields, definition) => {
    for (const name of ["title", "limit"]) fields[name].value = definition[name];
    fields.ranked.checked = definition.ranked;
    fields.opens.value = toField(definition.opens);
    fields.closes.value = toField(definition.closes);
  },
);

byId("zones").append(...Intl.supportedValuesOf("timeZone").map((value) => Object.assign(document.createElement("option"), { value })));

/** Load the definition of a site into its form. */
export const loadSite = connectForm(
  byId("site"),
  "site",
  ["putSite", "getSite", "site"],
  ({ timezone, statistics, paths, everyQuery, query, slash, hash, ignore, hosts }) => ({
    timezone: timezone.value.trim() || "UTC",
    statistics: statistics.value,
    paths: lines(paths),
    query: everyQuery.checked ? null : lines(query),
    slash: slash.value,
    hash: hash.checked,
    ignore: lines(ignore),
    hosts: lines(hosts),
  }),
  (fields, definition) => {
    for (const name of ["timezone", "statistics", "slash"]) fields[name].value = definition[name];
    for (const name of ["paths", "ignore", "hosts"]) fields[name].value = definition[name].join("\n");
    fields.everyQuery.checked = definition.query === null;
    fields.query.value = (definition.query ?? []).join(", ");
    fields.hash.checked = definition.hash;
  },
);
