// What is said to those who do not see the page.

/**
 * The latest words of each voice, in a live region that tells additions only. A voice replaces its own words, never
 * another's: an alert that comes up while a chart's point is being told must not take its place unheard.
 */
export class Aloud {
  constructor(region) {
    this.region = region;
  }

  say(voice, text) {
    const words = this.region.ownerDocument.createElement("p");
    words.dataset.voice = voice;
    words.textContent = text;
    this.region.querySelector(`[data-voice="${CSS.escape(voice)}"]`)?.remove();
    this.region.append(words);
  }
}
