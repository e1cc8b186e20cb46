// Elements that are created without HTML strings.

/** Create an element. A string among its children becomes text and never HTML. */
export function make(name, properties = {}, ...children) {
  // <img name=createElement> in the page hides document.createElement, but not the prototype's.
  const element = Document.prototype.createElement.call(document, name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "part") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Create a rating. Screen readers read its label. */
export function stars(rating, label) {
  return make("span", { className: "stars", role: "img", ariaLabel: label }, "★".repeat(rating) + "☆".repeat(5 - rating));
}
