// htmx 4.0.1 gives parseHTMLUnsafe a second argument, at which some Chromium throw (140 does), and then swaps nothing.
// Where the function is not there, htmx uses DOMParser.
"use strict";

try {
  Document.parseHTMLUnsafe?.("", {});
} catch {
  delete Document.parseHTMLUnsafe;
}
