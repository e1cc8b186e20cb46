// Elements that are created without HTML strings.

/** Call a method of the document. An element such as <img name=createElement> hides document.createElement. */
export const callDocument = (name, ...given) => Document.prototype[name].apply(document, given);

/** Create an element. A string among its children becomes text and never HTML. */
export function make(name, properties = {}, ...children) {
  const element = callDocument("createElement", name);
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

/** Call a function when a form is submitted. A sandbox without `allow-forms` has no submit event, but still the click. */
export function onSubmit(form, act) {
  form.addEventListener("click", (event) => {
    if (event.target.closest("button")?.type !== "submit") return;
    event.preventDefault();
    if (form.reportValidity()) act(event);
  });
}

/** Change a text only if it differs, so that a live region does not read it again. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
