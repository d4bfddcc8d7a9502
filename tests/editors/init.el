;;; init.el --- What the tests load into Emacs -*- lexical-binding: t; -*-

;;; Code:

(setq make-backup-files nil auto-save-default nil create-lockfiles nil
      inhibit-startup-screen t native-comp-jit-compilation nil
      native-comp-deferred-compilation nil native-comp-enable-subr-trampolines nil
      ring-bell-function #'ignore confirm-kill-processes nil
      eglot-stay-out-of '(flymake eldoc xref imenu)
      eglot-sync-connect nil eglot-autoreconnect nil)
(set-keyboard-coding-system 'utf-8-unix)
(prefer-coding-system 'utf-8-unix)
(electric-indent-mode 1)

(require 'json)
(add-to-list 'load-path (getenv "MIDFILL_TEST_CLIENT"))
(require 'midfill)
(setq midfill-command (split-string-and-unquote (getenv "MIDFILL_TEST_SERVER"))
      midfill-patience (string-to-number (getenv "MIDFILL_TEST_PATIENCE")))
(add-hook 'prog-mode-hook #'midfill-ensure)
(add-to-list 'auto-mode-alist '("\\.go\\'" . prog-mode)) ; it has no mode for Go without a grammar
(add-hook 'text-mode-hook #'midfill-ensure)
(define-key midfill-mode-map (kbd "M-\\") #'midfill-trigger)

(defvar midfill-test-marks 0 "How often the test has marked the end of its keys.")
(defun midfill-test-mark ()
  "Count."
  (interactive)
  (setq this-command last-command)
  (setq midfill-test-marks (1+ midfill-test-marks)))
(global-set-key (kbd "<f11>") #'midfill-test-mark)
(global-set-key (kbd "<f12>") #'ignore)

(defun midfill-test-visit (file)
  "Show FILE alone."
  (switch-to-buffer (find-file-noselect file))
  (delete-other-windows)
  (setq-local indent-tabs-mode nil))

(defun midfill-test-ghost ()
  "All text that overlays show in the window's buffer, without hints."
  (with-current-buffer (window-buffer)
    (mapconcat
     (lambda (overlay)
       (let ((text (or (overlay-get overlay 'after-string) "")) (shown ""))
         (dotimes (i (length text))
           (when (eq (get-text-property i 'face text) 'midfill-ghost)
             (setq shown (concat shown (substring-no-properties text i (1+ i))))))
         shown))
     (overlays-in (point-min) (point-max)) "")))

(defun midfill-test-messages ()
  "What the user was told."
  (vconcat (reverse midfill--told)))

(defun midfill-test-answer (process line)
  "Evaluate LINE in the window's buffer and answer PROCESS."
  (let ((answer
         (condition-case problem
             (with-current-buffer (window-buffer)
               (list (cons 'value (eval (car (read-from-string line)) t))))
           (error (list (cons 'error (format "%S" problem)))))))
    (process-send-string process (concat (json-encode answer) "\n"))))

(defun midfill-test-filter (process text)
  "Answer every whole line of TEXT, from PROCESS."
  (let ((all (concat (process-get process :rest) text)) line)
    (while (string-match "\n" all)
      (setq line (substring all 0 (match-beginning 0))
            all (substring all (match-end 0)))
      (midfill-test-answer process line))
    (process-put process :rest all)))

(make-network-process :name "test" :server t :family 'local :coding 'utf-8-unix
                      :service (getenv "MIDFILL_TEST_SOCKET") :noquery t
                      :filter #'midfill-test-filter)

;;; init.el ends here
