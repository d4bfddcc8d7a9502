;;; midfill.el --- Ghost text from a model on your machine -*- lexical-binding: t; -*-

;; Author: The midfill authors
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1") (eglot "1.9"))
;; Keywords: convenience, tools, languages
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A client for the language server midfill, on top of eglot: while you
;; type, what the model would write is shown as ghost text behind point.
;; TAB takes it, M-f a word of it, M-e a line, C-g none of it.
;;
;;     (add-to-list 'load-path "/path/to/midfill/editors/emacs")
;;     (require 'midfill)
;;     (add-hook 'prog-mode-hook #'midfill-ensure)
;;
;; If the program isn't on your PATH, set `midfill-command'.  The README
;; beside this file tells what to do when nothing is shown.

;;; Code:

(require 'cl-lib)
(require 'eglot)
(require 'jsonrpc)
(require 'pp)

(defgroup midfill nil
  "Ghost text from a model on your machine."
  :group 'eglot
  :prefix "midfill-")

(defcustom midfill-command '("midfill" "lsp")
  "How the language server is started."
  :type '(repeat string))

(defcustom midfill-settings nil
  "The server's settings, a property list such as (:max_tokens 32).
They are sent when it starts; docs/settings.md lists them."
  :type 'plist)

(defcustom midfill-delay 0.05
  "Seconds without a key before the server is asked."
  :type 'number)

(defcustom midfill-patience 10
  "Seconds that a request may stay unanswered before you are told."
  :type 'number)

(defface midfill-ghost '((t :inherit shadow))
  "Text that is suggested and not there yet.")

(defface midfill-hint '((t :inherit (italic shadow)))
  "Which of several suggestions is shown.")


;;; The server, as eglot knows it

(defclass midfill-server (eglot-lsp-server)
  ((status :initform nil :accessor midfill--status-of
           :documentation "The parameters of its last midfill/status."))
  :documentation "A midfill language server.")

(cl-defmethod eglot-client-capabilities :around ((_server midfill-server))
  "What eglot can do, and inline completion."
  (let* ((all (cl-call-next-method))
         (document (copy-sequence (plist-get all :textDocument))))
    (plist-put (copy-sequence all) :textDocument
               (plist-put document :inlineCompletion
                          (list :dynamicRegistration :json-false)))))

(cl-defmethod eglot-initialization-options ((_server midfill-server))
  "The settings that the user has made."
  (or midfill-settings (cl-call-next-method)))

(cl-defmethod eglot-handle-notification
  ((server midfill-server) (_method (eql 'midfill/status)) &rest params)
  "Keep PARAMS, the state of SERVER, for the mode line."
  (setf (midfill--status-of server) params)
  (force-mode-line-update t))

(cl-defmethod eglot-handle-notification
  ((_server midfill-server) (_method (eql 'window/showMessage))
   &key type message &allow-other-keys)
  "Show MESSAGE to the user, once; where it stays if its TYPE is an error."
  (midfill--tell message (eql type 1)))

(defvar midfill--told nil "Sentences that were told.")

(defun midfill--tell (sentence &optional is-grave)
  "Tell the user SENTENCE unless that was done.
If IS-GRAVE, in a window that stays."
  (unless (member sentence midfill--told)
    (push sentence midfill--told)
    (if is-grave
        (display-warning 'midfill sentence :warning)
      (message "%s" sentence))))

(defun midfill--server ()
  "The midfill server of this buffer, or nil."
  (let ((server (and (eglot-managed-p) (eglot-current-server))))
    (and server (object-of-class-p server 'midfill-server)
         (jsonrpc-running-p server)
         server)))

(defun midfill--send (server method params done)
  "Ask SERVER for METHOD with PARAMS; DONE gets the result.
Return the request's number, or nil where jsonrpc hides it."
  (car-safe
   (funcall (if (fboundp 'jsonrpc--async-request-1) ; before jsonrpc 1.0.27
                'jsonrpc--async-request-1
              'jsonrpc-async-request)
            server method params
            :success-fn done
            :error-fn #'ignore          ; superseded, or cancelled by us
            :timeout midfill-patience
            :timeout-fn #'midfill--no-answer)))

(defun midfill--no-answer ()
  "Tell that the server does not answer."
  (midfill--tell
   (format "midfill has not answered for %s seconds; M-x midfill-restart starts it again"
           midfill-patience)
   t))


;;; One suggestion

(cl-defstruct (midfill--item (:constructor midfill--make-item) (:copier nil))
  beg      ; marker where TEXT begins
  text     ; all of it, with what stood between BEG and point
  after    ; what stood behind point on its line
  n-tail   ; characters of AFTER that it replaces
  command  ; what the server wants to be told afterwards
  is-rest) ; a part of it was taken

(cl-defstruct (midfill--place (:constructor midfill--make-place) (:copier nil))
  beg head after is-utf16) ; of the line that was asked for

(defun midfill--here (server)
  "Point's line, as SERVER counts."
  (midfill--make-place
   :beg (copy-marker (line-beginning-position))
   :head (buffer-substring-no-properties (line-beginning-position) (point))
   :after (buffer-substring-no-properties (point) (line-end-position))
   :is-utf16 (not (equal (plist-get (eglot--capabilities server) :positionEncoding)
                         "utf-32"))))

(defun midfill--characters (string units is-utf16)
  "How many characters of STRING are UNITS.
Those are UTF-16's if IS-UTF16, else characters."
  (if (not is-utf16)
      (min units (length string))
    (let ((n 0))
      (while (and (> units 0) (< n (length string)))
        (setq units (- units (if (> (aref string n) #xffff) 2 1))
              n (1+ n)))
      n)))

(defun midfill--parse (raw place)
  "The item that RAW, an InlineCompletionItem, means at PLACE, or nil."
  (let* ((given (plist-get raw :insertText))
         (text (replace-regexp-in-string
                "\r\n" "\n" (if (stringp given) given (or (plist-get given :value) ""))
                t t))
         (range (plist-get raw :range))
         (head (midfill--place-head place))
         (line (concat head (midfill--place-after place)))
         (column (lambda (end)
                   (midfill--characters
                    line (plist-get (plist-get range end) :character)
                    (midfill--place-is-utf16 place))))
         (from (if range (funcall column :start) (length head)))
         (to (if range (funcall column :end) (length head))))
    (when (and (<= from (length head) to)
               (string-prefix-p (substring head from) text))
      (midfill--make-item
       :beg (copy-marker (+ (midfill--place-beg place) from))
       :text text
       :after (midfill--place-after place)
       :n-tail (- to (length head))
       :command (plist-get raw :command)))))

(defun midfill--left (item)
  "What of ITEM is still to be inserted at point, or nil if it does not fit.
It doesn't when something else was typed, or when what stands behind
point has changed, as by an electric bracket."
  (let ((beg (marker-position (midfill--item-beg item)))
        (text (midfill--item-text item)))
    (when (and beg (<= beg (point))
               (< (- (point) beg) (length text))
               (string= (midfill--item-after item)
                        (buffer-substring-no-properties (point) (line-end-position))))
      (let ((typed (buffer-substring-no-properties beg (point))))
        (and (string-prefix-p typed text)
             (substring text (length typed)))))))

(defun midfill--visible (item left)
  "What of LEFT is new to the eye.
That is, without the text behind point that ITEM repeats at its end."
  (let ((tail (substring (midfill--item-after item) 0 (midfill--item-n-tail item))))
    (if (and (not (string-empty-p tail)) (string-suffix-p tail left))
        (substring left 0 (- (length left) (length tail)))
      left)))

(defun midfill--part (text part)
  "The next PART of TEXT: `all', `word' or `line'."
  (save-match-data
    (pcase part
      ('word
       (if (or (string-match "\\`[ \t\n]*[[:alnum:]_]+" text)
               (string-match "\\`[ \t\n]*[^[:alnum:]_ \t\n]+" text))
           (match-string 0 text)
         text))
      ('line
       (string-match "\\`\n*[^\n]*" text)
       (match-string 0 text))
      (_ text))))


;;; What is shown

(defvar-local midfill--items nil "What the last answer offers here.")
(defvar-local midfill--index 0 "Which of them is shown.")
(defvar-local midfill--overlay nil "Shows it; the keys hold as long as it is there.")
(defvar-local midfill--tick nil "Of the buffer when it was looked at last.")
(defvar-local midfill--point nil "Point after the last command.")
(defvar-local midfill--timer nil "Runs until the server is asked.")
(defvar-local midfill--flight nil "(SERVER . NUMBER) of the request on its way.")
(defvar-local midfill--was nil "The server that this buffer had.")
(defvar midfill-mode)

(defun midfill--current ()
  "The item that is offered and fits, or nil."
  (let ((item (nth midfill--index midfill--items)))
    (and item (midfill--left item) item)))

(defun midfill--rest-p ()
  "Whether the rest of an item is shown of which a part was taken."
  (let ((item (midfill--current)))
    (and item (midfill--item-is-rest item))))

(defun midfill--hide ()
  "Show nothing."
  (when midfill--overlay
    (delete-overlay midfill--overlay))
  (dolist (item midfill--items)
    (set-marker (midfill--item-beg item) nil))
  (setq midfill--overlay nil midfill--items nil midfill--index 0))

(defun midfill--draw (&optional hint)
  "Show what is left of the current item, and HINT; nothing if it doesn't fit."
  (let* ((item (midfill--current))
         (left (and item (midfill--left item))))
    (if (not left)
        (midfill--hide)
      (unless midfill--overlay
        (setq midfill--overlay (make-overlay (point) (point) nil t t))
        (overlay-put midfill--overlay 'priority 1000))
      (move-overlay midfill--overlay (point) (point) (current-buffer))
      (let ((text (propertize (midfill--visible item left) 'face 'midfill-ghost)))
        (unless (string-empty-p text)
          (put-text-property 0 1 'cursor 1 text)) ; the cursor stays in front of it
        (overlay-put midfill--overlay 'after-string
                     (concat text (and hint (propertize hint 'face 'midfill-hint))))))))

(defun midfill--cancel ()
  "Ask nothing, and tell the server that nobody waits."
  (when (timerp midfill--timer)
    (cancel-timer midfill--timer))
  (let ((server (car midfill--flight)) (number (cdr midfill--flight)))
    (setq midfill--timer nil midfill--flight nil)
    (when (and number (jsonrpc-running-p server))
      (jsonrpc-notify server :$/cancelRequest (list :id number)))))

(defun midfill--ask (kind)
  "Ask the server for suggestions at point; KIND is LSP's trigger kind."
  (midfill--cancel)
  (let ((server (midfill--server)))
    (when (and server (midfill--offers-p server) (not buffer-read-only))
      (eglot--signal-textDocument/didChange) ; eglot would hold it back
      (let* ((buffer (current-buffer))
             (place (midfill--here server))
             (flight (list server)))
        (setq midfill--flight flight)
        (setcdr flight
                (midfill--send
                 server :textDocument/inlineCompletion
                 (append (eglot--TextDocumentPositionParams)
                         (list :context (list :triggerKind kind)))
                 (lambda (result)
                   (when (buffer-live-p buffer)
                     (with-current-buffer buffer
                       (when (eq flight midfill--flight)
                         (setq midfill--flight nil)
                         (midfill--take result place)))))))))))

(defun midfill--offers-p (server)
  "Whether SERVER answers inline completion."
  ;; an empty object is nil here, so what counts is that it is there
  (let ((offer (plist-member (eglot--capabilities server) :inlineCompletionProvider)))
    (and offer (not (eq (cadr offer) :json-false)))))

(defun midfill--take (result place)
  "Show what of RESULT, an answer for PLACE, fits the buffer as it is now."
  (midfill--hide)
  (let ((raws (if (and (consp result) (keywordp (car result)))
                  (plist-get result :items)
                result)))
    (setq midfill--items
          (cl-remove-if-not
           #'midfill--left
           (delq nil (mapcar (lambda (raw) (midfill--parse raw place)) raws))))
    (midfill--draw)))


;;; Commands

(defun midfill--accept (part)
  "Insert the next PART of what is shown."
  (let* ((item (midfill--current))
         (left (and item (midfill--left item))))
    (unless left
      (midfill--hide)
      (user-error "Nothing is suggested here"))
    (let* ((piece (midfill--part left part))
           (is-whole (>= (length piece) (length (midfill--visible item left))))
           (command (midfill--item-command item))
           (rest (substring left (length piece)))
           (after (midfill--item-after item))
           (n-tail (midfill--item-n-tail item)))
      (midfill--cancel)
      (midfill--hide)
      (undo-boundary)
      (when is-whole
        (delete-region (point) (+ (point) n-tail))
        (setq piece left))
      (insert piece)
      (undo-boundary)
      (setq midfill--tick (buffer-chars-modified-tick))
      (if is-whole
          (when command
            (midfill--run (plist-get command :command) (plist-get command :arguments)))
        (setq midfill--items
              (list (midfill--make-item :beg (copy-marker (point)) :text rest
                                        :after after :n-tail n-tail :command command
                                        :is-rest t)))
        (midfill--draw)))))

(defun midfill-accept ()
  "Insert what is shown."
  (interactive)
  (midfill--accept 'all))

(defun midfill-accept-word ()
  "Insert the next word of what is shown."
  (interactive)
  (midfill--accept 'word))

(defun midfill-accept-line ()
  "Insert what is shown, up to the line's end."
  (interactive)
  (midfill--accept 'line))

(defun midfill-dismiss ()
  "Hide what is shown, and wait for the next change."
  (interactive)
  (midfill--cancel)
  (midfill--hide))

(defun midfill-next (&optional count)
  "Show the suggestion that is COUNT further on."
  (interactive "p")
  (when midfill--items
    (let ((n (length midfill--items)))
      (setq midfill--index (mod (+ midfill--index (or count 1)) n))
      (midfill--draw (format " (%d/%d)" (1+ midfill--index) n)))))

(defun midfill-previous (&optional count)
  "Show the suggestion that is COUNT before."
  (interactive "p")
  (midfill-next (- (or count 1))))

(defun midfill-trigger ()
  "Ask for suggestions now, and for several."
  (interactive)
  (unless (midfill--server)
    (user-error "Midfill does not run here; M-x midfill-ensure starts it"))
  (setq midfill--tick (buffer-chars-modified-tick))
  (midfill--ask 1))

(defun midfill--run (name arguments &optional done)
  "Run the server's command NAME with ARGUMENTS; DONE gets its result."
  (let ((server (midfill--server)))
    (unless server
      (user-error "Midfill does not run here; M-x midfill-ensure starts it"))
    (eglot--signal-textDocument/didChange)
    (midfill--send server :workspace/executeCommand
                   (list :command name :arguments (vconcat arguments))
                   (or done #'ignore))))

(defun midfill--page (title object)
  "Show OBJECT, pretty-printed, in a buffer named after TITLE."
  (with-current-buffer (get-buffer-create (format "*midfill %s*" title))
    (let ((inhibit-read-only t))
      (erase-buffer)
      (insert (pp-to-string object))
      (goto-char (point-min)))
    (special-mode)
    (display-buffer (current-buffer))))

(defun midfill-explain ()
  "Show what the last request did, or why it showed nothing."
  (interactive)
  (midfill--run "midfill.explain" [] (lambda (told) (midfill--page "explain" told))))

(defun midfill-stats ()
  "Show what the server and its engine have done."
  (interactive)
  (midfill--run "midfill.stats" [] (lambda (told) (midfill--page "stats" told))))

(defun midfill-pause (&optional minutes)
  "Suggest nothing for MINUTES, or until `midfill-resume'."
  (interactive (list (and current-prefix-arg (prefix-numeric-value current-prefix-arg))))
  (midfill-dismiss)
  (midfill--run "midfill.pause" (if minutes (vector minutes) [])))

(defun midfill-resume ()
  "Suggest again."
  (interactive)
  (midfill--run "midfill.pause" [0]))

(defun midfill--ready (result)
  "Tell RESULT, the answer to a wish for a model."
  (if (eq (plist-get result :ready) t)
      (message "midfill: %s is ready" (plist-get result :model))
    (message "midfill: %s" (or (plist-get result :reason) "it is not ready"))))

(defun midfill-restart-engine ()
  "End the engine, for all windows, and start it with these settings."
  (interactive)
  (midfill--run "midfill.restartEngine" [] #'midfill--ready))

(defun midfill-select-model (id)
  "Work with the model ID from now on."
  (interactive (list (midfill--read-model)))
  (midfill--run "midfill.selectModel" (vector id) #'midfill--ready))

(defun midfill--read-model ()
  "Let the user choose a model of those on disk."
  (let* ((server (or (midfill--server) (user-error "Midfill does not run here")))
         (told (jsonrpc-request server :workspace/executeCommand
                                (list :command "midfill.selectModel" :arguments [])))
         (present (cl-remove-if-not
                   (lambda (model) (eq (plist-get model :is_on_disk) t))
                   (append (plist-get told :models) nil))))
    (unless present
      (user-error "No model is on disk; midfill models pull fetches one"))
    (completing-read (format "Model (now %s): " (plist-get told :current))
                     (mapcar (lambda (model) (plist-get model :id)) present) nil t)))

(defun midfill-status ()
  "Tell what the server does, and why nothing was shown."
  (interactive)
  (message "%s" (midfill--sentence)))

(defun midfill--sentence ()
  "What the server does, for a person."
  (let* ((server (midfill--server))
         (status (and server (midfill--status-of server))))
    (if (not server)
        "midfill does not run in this buffer"
      (cl-destructuring-bind (&key (state "starting") (message "") percent reason
                                   &allow-other-keys)
          status
        (concat "midfill: " state
                (and percent (format " %d%%" percent))
                (and (not (member message (list "" state))) (concat "; " message))
                (and reason (concat "; nothing was shown: " reason)))))))

(defun midfill--lighter ()
  "For the mode line."
  (let* ((server (midfill--server))
         (status (and server (midfill--status-of server)))
         (state (plist-get status :state))
         (percent (plist-get status :percent)))
    (cond ((not server) " midfill:off")
          ((equal state "ready") " midfill")
          (percent (format " midfill:%s %d%%" state percent))
          (t (format " midfill:%s" (or state "starting"))))))


;;; The modes

(defun midfill--unless-popup (command)
  "COMMAND, unless a popup of candidates is open."
  (unless (or completion-in-region-mode
              (bound-and-true-p company-candidates))
    command))

(defun midfill--key (command)
  "COMMAND as a binding that yields to a popup."
  `(menu-item "" ,command :filter midfill--unless-popup))

(defvar midfill-active-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "TAB") (midfill--key #'midfill-accept))
    (define-key map [tab] (midfill--key #'midfill-accept))
    (define-key map (kbd "M-f") (midfill--key #'midfill-accept-word))
    (define-key map (kbd "C-<right>") (midfill--key #'midfill-accept-word))
    (define-key map (kbd "M-e") (midfill--key #'midfill-accept-line))
    (define-key map (kbd "C-<down>") (midfill--key #'midfill-accept-line))
    (define-key map (kbd "M-n") (midfill--key #'midfill-next))
    (define-key map (kbd "M-p") (midfill--key #'midfill-previous))
    (define-key map (kbd "C-g") (midfill--key #'midfill-dismiss))
    map)
  "Keys that hold while something is shown.")

(defvar midfill-mode-map (make-sparse-keymap)
  "Keys that hold in buffers with suggestions; `midfill-trigger' may be put here.")

(defvar midfill--keymaps `((midfill--overlay . ,midfill-active-map))
  "For `emulation-mode-map-alists'.")

(defun midfill--after-command ()
  "Shrink, hide or ask, after every command."
  (let ((tick (buffer-chars-modified-tick)))
    (cond
     ((not (eql tick midfill--tick))
      (setq midfill--tick tick)
      (midfill--draw)
      (midfill--cancel)
      (let ((buffer (current-buffer)))
        (setq midfill--timer
              (run-with-timer
               midfill-delay nil
               (lambda ()
                 (when (and (buffer-live-p buffer) (eq buffer (window-buffer)))
                   (with-current-buffer buffer
                     (setq midfill--timer nil)
                     ;; an answer might be shorter than a rest that is shown
                     (when (and midfill-mode (not (midfill--rest-p)))
                       (midfill--ask 2)))))))))
     ((and midfill--items (not (midfill--current)))
      (midfill-dismiss))
     ;; moved on while an answer is on its way: nobody waits for it
     ((and midfill--flight (not (eql (point) midfill--point)))
      (midfill--cancel)))
    (setq midfill--point (point))))

(defun midfill--left-buffer (&rest _)
  "Hide what is shown in buffers that aren't being typed in."
  (dolist (buffer (buffer-list))
    (when (and (buffer-local-value 'midfill--overlay buffer)
               (not (eq buffer (window-buffer))))
      (with-current-buffer buffer
        (midfill-dismiss)))))

;;;###autoload
(define-minor-mode midfill-mode
  "Show what the model would write as ghost text.
`midfill-ensure' turns this on where the server runs."
  :lighter (:eval (midfill--lighter))
  :keymap midfill-mode-map
  (if midfill-mode
      (progn
        (setq midfill--tick (buffer-chars-modified-tick))
        (add-to-list 'emulation-mode-map-alists 'midfill--keymaps)
        (add-hook 'post-command-hook #'midfill--after-command nil t)
        (add-hook 'window-selection-change-functions #'midfill--left-buffer)
        (add-hook 'window-buffer-change-functions #'midfill--left-buffer))
    (midfill-dismiss)
    (remove-hook 'post-command-hook #'midfill--after-command t)))

(defun midfill--managed ()
  "Turn `midfill-mode' on or off, as eglot has a server here or not."
  (let ((server (and (eglot-managed-p) (eglot-current-server))))
    (cond
     ((and server (object-of-class-p server 'midfill-server))
      (setq midfill--was server)
      (midfill-mode 1))
     (midfill--was
      (let ((was midfill--was) (buffer (current-buffer)))
        (setq midfill--was nil)
        (midfill-mode -1)
        (unless (or (eglot--shutdown-requested was) (jsonrpc-running-p was))
          ;; eglot starts it again by itself unless it had just done so
          (run-with-timer
           2 nil
           (lambda ()
             (unless (and (buffer-live-p buffer)
                          (with-current-buffer buffer (midfill--server)))
               (midfill--tell
                "midfill: the server has ended; M-x midfill-ensure starts it again, its last words are in the *EGLOT … stderr* buffer"
                t))))))))))

;;;###autoload
(defun midfill-ensure ()
  "Have midfill complete this buffer, starting its server if need be.
Eglot serves a buffer with one server; where another is to do that,
midfill can't."
  (interactive)
  (cond
   ((not buffer-file-name)
    (when (called-interactively-p 'any)
      (user-error "Midfill completes files")))
   ((not (executable-find (car midfill-command)))
    (midfill--tell
     (format "midfill: the program %S is not there; install it, or name it in `midfill-command'"
             (car midfill-command))
     t))
   (t
    (add-hook 'eglot-managed-mode-hook #'midfill--managed)
    (setq-local eglot-server-programs
                (cons (cons (list major-mode) (cons 'midfill-server midfill-command))
                      eglot-server-programs))
    (if (called-interactively-p 'any)
        (unless (midfill--server)
          (apply #'eglot (eglot--guess-contact)))
      (eglot-ensure)))))

(defun midfill-restart ()
  "End this buffer's server and start it again."
  (interactive)
  (setq midfill--told nil)
  (let ((server (and (eglot-managed-p) (eglot-current-server))))
    (when server
      (setf (eglot--shutdown-requested server) t)
      (jsonrpc-shutdown server)))
  (call-interactively #'midfill-ensure))

(provide 'midfill)
;;; midfill.el ends here
