// A button that acts when it is pressed a second time.

import { make } from "../lib/dom.js";
import { words } from "./words.js";

const PATIENCE = 4000; // ms in which it must be pressed again

/** Create a button with a label that runs `act` when it is pressed again within four seconds. */
export function confirmed(label, act, properties = {}) {
  const button = make("button", { type: "button", ...properties, onclick: press }, label);
  let timer = 0;
  function press() {
    if (timer) {
      reset();
      act();
      return;
    }
    button.textContent = words.admin.really(label);
    timer = setTimeout(reset, PATIENCE);
  }
  function reset() {
    clearTimeout(timer);
    timer = 0;
    button.textContent = label;
  }
  return button;
}
